"""Blocks of lines -> reports.

Enters: a block of whole lines and where it comes from. Leaves: a `JobReport` for each line with a
figure of the job's speed, or one for each role in it. Rare texts are searched for in whole blocks,
so most lines cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.mfu.logs.blocks import LineBlock, line_end, line_start
from otel_ofu.mfu.logs.formats import LineFigures, LineReader, built_in_readers
from otel_ofu.mfu.logs.patterns import LinePattern
from otel_ofu.mfu.report import JobReport

_COMMENTS = (b"#", b"//")


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Where lines come from: the file or command, and the job that the configuration names."""

    source: str
    job: str = ""


class Scanner:
    """Finds reports. Own patterns come first: they are written where the built-in ones fail."""

    def __init__(
        self, readers: Sequence[LineReader] | None = None, patterns: Sequence[LinePattern] = ()
    ) -> None:
        self._readers = tuple(built_in_readers() if readers is None else readers)
        self._marks = tuple(dict.fromkeys(reader.marks[0] for reader in self._readers))
        self._patterns = tuple(patterns)

    def scan(self, block: LineBlock, origin: LineOrigin, now_s: float) -> list[JobReport]:
        """The reports of a block in the order of their lines, at most one a line and role."""
        found: dict[int, Sequence[LineFigures]] = {}
        for start, figures in self._by_pattern(block.text):
            found.setdefault(start, [figures])
        for start, line in self._marked(block.text):
            figures_of_line = [] if start in found else self._read(line)
            if figures_of_line:
                found[start] = figures_of_line
        return list(_reports(found, block, origin, now_s))

    def _by_pattern(self, text: bytes) -> Iterator[tuple[int, LineFigures]]:
        for pattern in self._patterns:
            for at, figures in pattern.matches(text):
                start = line_start(text, at)
                if not _is_comment(text, start):
                    yield start, figures

    def _marked(self, text: bytes) -> Iterator[tuple[int, bytes]]:
        """The lines with a mark, each once for each mark it has."""
        for mark in self._marks:
            at = text.find(mark)
            while at >= 0:
                start, end = line_start(text, at), line_end(text, at)
                if not _is_comment(text, start):
                    yield start, text[start:end]
                at = text.find(mark, end)

    def _read(self, line: bytes) -> Sequence[LineFigures]:
        return next((f for f in (r.read(line) for r in self._readers) if f), ())


_LONGEST_INDENT = 64


def _is_comment(text: bytes, start: int) -> bool:
    """Whether a line is a remark, such as what somebody expects to see."""
    return text[start : start + _LONGEST_INDENT].lstrip(b" \t\xef\xbb\xbf").startswith(_COMMENTS)


def _reports(
    found: Mapping[int, Sequence[LineFigures]], block: LineBlock, origin: LineOrigin, now_s: float
) -> Iterator[JobReport]:
    line_number, counted_to = block.line_number, 0
    for start in sorted(found):
        line_number += block.text.count(b"\n", counted_to, start)
        counted_to = start
        for figures in found[start]:
            yield _report(figures, origin, now_s, line_number)


def _report(figures: LineFigures, origin: LineOrigin, now_s: float, line_number: int) -> JobReport:
    return JobReport(
        time_s=now_s,
        source=origin.source,
        framework=figures.framework,
        line_number=line_number,
        job=origin.job,
        role=figures.role,
        step=_whole(figures.details.get("step")),
        batch_size=_whole(figures.details.get("batch_size")),
        power_w_per_gpu=figures.details.get("power_w_per_gpu"),
        precision=figures.precision,
        **{str(name): value for name, value in figures.values.items()},
    )


def _whole(number: float | None) -> int | None:
    return int(number) if number is not None and number.is_integer() else None
