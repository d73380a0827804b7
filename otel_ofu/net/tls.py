"""TLS of clients and servers: the files that a user names, and what is made of them.

Enters: paths of PEM files. Leaves: an `ssl.SSLContext`, or the bytes for gRPC; when certificates
end; a `TlsError` that names the file. The files are read at each use: certificates are renewed
while the agent runs.
Source: RFC 5280 section 4.1 (Certificate, Validity), X.690 (DER), for the end of a certificate,
which is read without a library for X.509.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

from otel_ofu.files.settings import CheckContext, ExistingFile, Mistake, Settings, tried

PemFile = Annotated[str, ExistingFile()]


class TlsFiles(Settings, frozen=True, kw_only=True):
    """Of a client; `ca_file` empty: the system's. `key_file` empty: the key is in `cert_file`."""

    ca_file: PemFile = ""
    cert_file: PemFile = ""
    key_file: PemFile = ""

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - files alone
        if _readable(self.ca_file, self.cert_file, self.key_file):
            yield from tried(partial(check_tls_files, self))

    def __bool__(self) -> bool:
        return bool(self.ca_file or self.cert_file or self.key_file)


class ServerCertificate(Settings, frozen=True, kw_only=True):
    """Of a server; plaintext without. `key_file` empty: the key is in `cert_file`."""

    cert_file: PemFile = ""
    key_file: PemFile = ""

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - files alone
        if _readable(self.cert_file, self.key_file):
            yield from tried(partial(server_context, self.cert_file, self.key_file))


class ServerTls(Settings, frozen=True, kw_only=True):
    """Of a server; with `client_ca_file` only clients with a certificate from it are let in."""

    cert_file: PemFile = ""
    key_file: PemFile = ""
    client_ca_file: PemFile = ""

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - files alone
        files = (self.cert_file, self.key_file, self.client_ca_file)
        if bool(self.cert_file) != bool(self.key_file):
            yield (), "cert_file and key_file belong together"
        elif _readable(*files):
            yield from tried(partial(server_context, *files))


def _readable(*paths: str) -> bool:
    """Whether they can be read; that they cannot is reported at their keys."""
    return not any(ExistingFile().problem(path) for path in paths)


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
        _load_certificate(context, files.cert_file, files.key_file)
    return context


def server_context(
    cert_file: str, key_file: str, client_ca_file: str = ""
) -> ssl.SSLContext | None:
    """None without a certificate. TlsError names the file that cannot be used."""
    if key_file and not cert_file:
        raise TlsError("key_file without cert_file: TLS needs both")
    if client_ca_file and not cert_file:
        raise TlsError("client_ca_file without cert_file: client certificates require TLS")
    if not cert_file:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_certificate(context, cert_file, key_file)
    if client_ca_file:
        try:
            context.load_verify_locations(client_ca_file)
        except OSError as error:
            why = _why(error, "certificate")
            raise TlsError(f"client_ca_file {client_ca_file}: {why}") from error
        context.verify_mode = ssl.CERT_REQUIRED
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


def _load_certificate(context: ssl.SSLContext, cert_file: str, key_file: str) -> None:
    try:
        context.load_cert_chain(cert_file, key_file or None, password=_no_password)
    except (OSError, ValueError) as error:
        pair = " and ".join(name for name in (cert_file, key_file) if name)
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


_PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Source: X.690: the tag UTCTime; the tag [0], constructed; the bit of a length of several bytes.
_UTC_TIME = 0x17
_VERSION = 0xA0
_LONG_FORM = 0x80
# Starting value: the bundle of a distribution has 0.2 MiB.
_MOST_PEM_BYTES = 4 * 1024 * 1024


def certificate_ends_s(path: str) -> list[float]:
    """The end of each certificate in the file. OSError, or ValueError if one cannot be read."""
    with Path(path).open("rb") as stream:
        text = stream.read(_MOST_PEM_BYTES).decode("ascii", "replace")
    return [_end_s(ssl.PEM_cert_to_DER_cert(pem)) for pem in _PEM.findall(text)]


def _end_s(der: bytes) -> float:
    try:
        _, certificate = next(_elements(der))
        _, signed = next(_elements(certificate))
        parts = [value for tag, value in _elements(signed) if tag != _VERSION]
        _serial, _algorithm, _issuer, validity = parts[:4]
        _, (tag, end) = _elements(validity)
    except (IndexError, StopIteration, RuntimeError) as error:
        raise ValueError("no certificate that can be read") from error
    form = "%y%m%d%H%M%SZ" if tag == _UTC_TIME else "%Y%m%d%H%M%SZ"
    return datetime.strptime(end.decode("ascii"), form).replace(tzinfo=UTC).timestamp()


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and value of each element."""
    at = 0
    while at < len(der):
        tag, length = der[at], der[at + 1]
        at += 2
        if length >= _LONG_FORM:
            size = length - _LONG_FORM
            length, at = int.from_bytes(der[at : at + size]), at + size
        yield tag, der[at : at + length]
        at += length
