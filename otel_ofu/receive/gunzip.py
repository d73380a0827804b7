"""Bodies without their compression, at most so large."""

from __future__ import annotations

import zlib

from otel_ofu.receive.points import MalformedError

_PIECE = 4 * 2**20


class TooLargeError(ValueError):
    """The body is larger than the limit, before or after decompression."""


def gunzip(raw: bytes, limit: int) -> bytes:
    """The content of a gzip body. Raises MalformedError, or TooLargeError as soon as that is known.

    Memory never exceeds the limit by more than a piece, whatever the body says.
    """
    pieces: list[bytes] = []
    size = 0
    member = zlib.decompressobj(wbits=31)
    while raw:
        try:
            piece = member.decompress(raw, min(_PIECE, limit - size + 1))
        except zlib.error as error:
            raise MalformedError("the body is no gzip") from error
        size += len(piece)
        if size > limit:
            raise TooLargeError(f"the body has more than {limit} bytes after decompression")
        pieces.append(piece)
        raw = member.unconsumed_tail or (member.unused_data if member.eof else b"")
        if member.eof:
            member = zlib.decompressobj(wbits=31) if raw else member
    if not member.eof:
        raise MalformedError("the body ends in the middle of its gzip")
    return b"".join(pieces)
