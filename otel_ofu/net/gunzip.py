"""Gzip in parts of bounded size.

Enters: a compressed body, part by part. Leaves: its content in parts, so that whoever takes them
can stop in time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

_WINDOW_BITS = 31
"""The largest window, and a header of gzip. Source: the manual of zlib, inflateInit2."""


class GunzipError(ValueError):
    """The bytes are not gzip."""


class Gunzip:
    """Unpacks gzip in bounded parts, so that a small body cannot fill the memory."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=_WINDOW_BITS)
        self.members = 1
        """How many have begun; each costs a copy of all that follows."""

    @property
    def is_complete(self) -> bool:
        return self._member.eof

    def parts(self, raw: bytes, part_bytes: int) -> Iterator[bytes]:
        """What `raw` adds, in parts of at most `part_bytes`. GunzipError if it is not gzip."""
        while raw:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=_WINDOW_BITS)
                self.members += 1
            try:
                yield self._member.decompress(raw, part_bytes)
            except zlib.error as error:
                raise GunzipError(f"broken gzip: {error}") from error
            raw = self._member.unconsumed_tail or self._member.unused_data
