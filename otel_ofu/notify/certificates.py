"""When certificates in a PEM file end: read from the file, without a library for X.509.

Enters: a path. Leaves: ends in Unix seconds.
Source: RFC 5280 section 4.1 (Certificate, Validity), X.690 (DER).
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

_PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Source: X.690: the tag UTCTime; the tag [0], constructed; the bit of a length of several bytes.
_UTC_TIME = 0x17
_VERSION = 0xA0
_LONG_FORM = 0x80
# Starting value: the bundle of a distribution has 0.2 MiB.
_MOST_BYTES = 4 * 1024 * 1024


def ends_s(path: str) -> list[float]:
    """The end of each certificate in the file. OSError, or ValueError if one cannot be read."""
    with Path(path).open("rb") as stream:
        text = stream.read(_MOST_BYTES).decode("ascii", "replace")
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
