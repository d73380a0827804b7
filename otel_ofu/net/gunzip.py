"""Gzip in pieces of bounded size.

Enters: a compressed body, part by part. Leaves: its content in pieces, so that whoever takes them
can stop in time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator


class GunzipError(ValueError):
    """The bytes are not gzip."""


class Gunzip:
    """Unpacks gzip in bounded pieces, so that a small body cannot fill the memory."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)

    @property
    def is_complete(self) -> bool:
        return self._member.eof

    def pieces(self, raw: bytes, piece_bytes: int) -> Iterator[bytes]:
        """What `raw` adds, in pieces of at most `piece_bytes`. GunzipError if it is not gzip."""
        while raw:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            try:
                yield self._member.decompress(raw, piece_bytes)
            except zlib.error as error:
                raise GunzipError(f"broken gzip: {error}") from error
            raw = self._member.unconsumed_tail or self._member.unused_data
