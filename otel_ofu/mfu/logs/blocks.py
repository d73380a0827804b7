"""Raw bytes -> blocks of whole lines, with bounded memory.

Enters: what was read, in any pieces. Leaves: blocks that end with a line, cleaned of colours and
of what container runtimes put around lines, and the number of the line before each block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

MAX_LINE_BYTES = 64 * 1024  # starting value: above any line with a figure

_COLOUR = re.compile(rb"\x1b\[[0-9;]{0,20}[A-Za-z]")
# The lines of containerd and CRI-O: time, stream, whole or part of a line, text.
_CRI = re.compile(rb"(?m)^\d{4}-\d\d-\d\dT[0-9:.+Z-]{8,35} (?:stdout|stderr) [FP](?:[:\w]{0,20}) ")
_DOCKER = b'{"log":'
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _DockerLine(msgspec.Struct):
    log: str


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Whole lines; `line_number` is that of the first, counted from 1."""

    text: bytes
    line_number: int


class LineBlocks:
    """Cuts a stream into blocks at line ends; a progress bar's carriage return ends a line too.

    Holds at most one unfinished line. What of a line is beyond `MAX_LINE_BYTES` is dropped, the
    whole line with it, and counted.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._dropping = False
        self._line_number = 1
        self.long_lines = 0

    def feed(self, chunk: bytes) -> LineBlock | None:
        """The whole lines that are complete with this piece, or None."""
        data = self._rest + chunk
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        whole, self._rest = data[:end], data[end:]
        first = self._line_number
        self._line_number += whole.count(b"\n")
        whole = self._after_dropped(whole)
        if first == 1:
            whole = whole.removeprefix(_BYTE_ORDER_MARK)
        self._bound_rest()
        return LineBlock(_clean(whole), first) if whole else None

    def finish(self) -> LineBlock | None:
        """The last line of a file that ended without a line end, or None."""
        return self.feed(b"\n") if self._rest else None

    def restart(self) -> None:
        """The next piece is the beginning of another file."""
        self._rest = b""
        self._dropping = False
        self._line_number = 1

    def _after_dropped(self, whole: bytes) -> bytes:
        if not self._dropping or not whole:
            return whole
        self._dropping = False
        # The line end stays: line numbers are counted by it.
        return whole[line_end(whole, 0) :]

    def _bound_rest(self) -> None:
        if len(self._rest) > MAX_LINE_BYTES:
            self.long_lines += not self._dropping
            self._dropping = True
        if self._dropping:
            self._rest = b""


def line_start(text: bytes, at: int) -> int:
    """Where the line of position `at` begins."""
    start = text.rfind(b"\n", 0, at) + 1
    return max(start, text.rfind(b"\r", start, at) + 1)


def line_end(text: bytes, at: int) -> int:
    """Where the line of position `at` ends: the position of its line end."""
    end = text.find(b"\n", at)
    end = len(text) if end < 0 else end
    progress = text.find(b"\r", at, end)
    return end if progress < 0 else progress


def _clean(lines: bytes) -> bytes:
    """Without colours and wrappers; the number of line feeds stays as it is."""
    if lines.startswith(_DOCKER) or b"\n" + _DOCKER in lines:
        lines = b"".join(map(_unwrapped, lines.splitlines(keepends=True)))
    if b"\x1b" in lines:
        lines = _COLOUR.sub(b"", lines)
    if b" stdout " in lines or b" stderr " in lines:
        lines = _CRI.sub(b"", lines)
    return lines


def _unwrapped(line: bytes) -> bytes:
    try:
        text = msgspec.json.decode(line, type=_DockerLine).log
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return line
    return text.replace("\n", " ").encode() + b"\n"
