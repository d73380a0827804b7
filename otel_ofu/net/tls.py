"""TLS of a client: the files that a user names, and what is made of them.

Enters: paths of PEM files. Leaves: an `ssl.SSLContext`, or the bytes for gRPC; a `TlsError` that
names the file. The files are read at each use: certificates are renewed while the agent runs.
"""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ca_file` empty: the system's authorities. `key_file` empty: the key is in `cert_file`."""

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def __bool__(self) -> bool:
        return bool(self.ca_file or self.cert_file or self.key_file)


class TlsError(ValueError):
    """A TLS file cannot be used; the message names the file."""


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """The context of a client that checks the server's certificate and name."""
    try:
        context = ssl.create_default_context(cafile=files.ca_file or None)
    except OSError as error:
        raise TlsError(f"ca_file {files.ca_file}: {_why(error, 'certificate')}") from error
    if files.key_file and not files.cert_file:
        raise TlsError("key_file without cert_file: a client certificate needs both")
    if files.cert_file:
        _load_certificate(context, files)
    return context


def check_tls_files(files: TlsFiles) -> None:
    """Reads the files as a connection would. TlsError names one that cannot be used."""
    if files:  # else there is nothing to read, and the system's authorities take 20 ms
        client_context(files)


def pem_files(files: TlsFiles) -> tuple[bytes | None, bytes | None, bytes | None]:
    """Authorities, key and certificate as gRPC takes them; None where no file is named."""
    names = (files.ca_file, files.key_file or files.cert_file, files.cert_file)
    ca, key, certificate = (Path(name).read_bytes() if name else None for name in names)
    return ca, key, certificate


def _load_certificate(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.load_cert_chain(files.cert_file, files.key_file or None, password=_no_password)
    except (OSError, ValueError) as error:
        pair = " and ".join(name for name in (files.cert_file, files.key_file) if name)
        why = _why(error, "certificate and key")
        raise TlsError(f"cert_file and key_file {pair}: {why}") from error


def _no_password() -> str:
    # Without this OpenSSL asks at the terminal.
    raise ValueError("the key is encrypted; it has to be without a password")


def _why(error: Exception, expected: str) -> str:
    if isinstance(error, ssl.SSLError):
        fit = " that fit" if "key" in expected else ""
        return f"no {expected} in PEM{fit} ({error.reason or error})"
    return (isinstance(error, OSError) and error.strerror) or str(error)
