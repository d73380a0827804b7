"""TLS files of a client: read once to see that they can be used.

Enters: paths of PEM files. Leaves: nothing, or a ValueError that names the file.
"""

from __future__ import annotations

import ssl
from typing import Protocol


class TlsFiles(Protocol):
    """`ca_file` None: the system's. `key_file` None: the key is in `cert_file`."""

    @property
    def ca_file(self) -> str | None: ...

    @property
    def cert_file(self) -> str | None: ...

    @property
    def key_file(self) -> str | None: ...


def check_tls_files(files: TlsFiles) -> None:
    """Reads the TLS files as a connection would. ValueError names a file that is no use."""
    if not (files.ca_file or files.cert_file or files.key_file):
        return
    try:
        context = ssl.create_default_context(cafile=files.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(f"ca_file {files.ca_file}: {_plain(error)}") from error
    if files.key_file and not files.cert_file:
        raise ValueError("key_file without cert_file: a client certificate needs both")
    if files.cert_file:
        try:
            context.load_cert_chain(files.cert_file, files.key_file, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            pair = " and ".join(f for f in (files.cert_file, files.key_file) if f)
            raise ValueError(f"cert_file and key_file {pair}: {_plain(error)}") from error


def _no_password() -> str:
    # Without this OpenSSL asks at the terminal.
    raise ValueError("the key is encrypted; it has to be without a password")


def _plain(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"no certificate and key in PEM that fit ({error.reason or error})"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
