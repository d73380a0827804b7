"""Who may send: a bearer token in a file, and TLS.

Enters: file names, the `Authorization` of a request. Leaves: yes or no, contexts of `ssl` and gRPC.
"""

from __future__ import annotations

import hmac
import os
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

from otel_ofu.receive.settings import Tls

_LONGEST_TOKEN = 8192


class BearerToken:
    """The token in a file, read again when the file changes. ValueError if it holds none.

    While a changed file cannot be read, the old token holds.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int, int] | None = None
        try:
            self._token = self._read()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "no text"
            raise ValueError(f"token_file {path}: {why}") from error
        if not self._token:
            raise ValueError(f"token_file {path}: the file is empty, or longer than 8 KiB")

    def allows(self, authorization: str) -> bool:
        """Whether this is `Bearer` with the token; takes as long for a wrong one."""
        # A secret that is being replaced is away for a moment.
        with suppress(OSError, UnicodeDecodeError):
            self._token = self._read() or self._token
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        return same and scheme.lower() == "bearer"

    def _read(self) -> bytes:
        """The token; empty when the file is as it was, or holds none."""
        status = os.stat(self._path)  # noqa: PTH116 - one call a request
        stamp = status.st_mtime_ns, status.st_size, status.st_ino
        if stamp == self._stamp or status.st_size > _LONGEST_TOKEN:
            return b""
        token = self._path.read_text("utf-8").strip().encode()
        self._stamp = stamp
        return token


def tls_context(tls: Tls) -> ssl.SSLContext | None:
    """None without a certificate. ValueError names the file that is no use."""
    _check(tls)
    if not tls.cert_file:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: "")
    except (OSError, ssl.SSLError) as error:
        why = f"cert_file and key_file {tls.cert_file} and {tls.key_file}"
        raise ValueError(f"{why}: {error.strerror or error}") from error
    if tls.client_ca_file:
        try:
            context.load_verify_locations(tls.client_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(
                f"client_ca_file {tls.client_ca_file}: {error.strerror or error}"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def grpc_credentials(tls: Tls) -> Any:  # noqa: ANN401 - grpc has no types
    """None without a certificate; the files are known to be of use (`tls_context`)."""
    import grpc  # noqa: PLC0415 - when first used

    if not tls.cert_file:
        return None
    pair = Path(tls.key_file).read_bytes(), Path(tls.cert_file).read_bytes()
    ca = Path(tls.client_ca_file).read_bytes() if tls.client_ca_file else None
    return grpc.ssl_server_credentials([pair], ca, require_client_auth=ca is not None)


def _check(tls: Tls) -> None:
    if bool(tls.cert_file) != bool(tls.key_file):
        raise ValueError("cert_file and key_file belong together")
    if tls.client_ca_file and not tls.cert_file:
        raise ValueError("client_ca_file without cert_file: only TLS can ask for certificates")
