"""A request as it waits and travels: serialised, gzip'd once, with the number of its points."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

_GZIP_WINDOW_BITS = 31


@dataclass(frozen=True, slots=True)
class Body:
    """`gzipped` holds one serialised request of `signal` ("metrics" or "logs")."""

    signal: str
    gzipped: bytes
    points: int

    def raw(self) -> bytes:
        """The serialised request, not compressed."""
        return zlib.decompress(self.gzipped, _GZIP_WINDOW_BITS)
