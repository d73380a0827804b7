"""The pictures of the page: all jobs against the 1:1 line, and one job over time.

Enters: jobs. Leaves: SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_ofu.report.reasons import NORMAL
from otel_ofu.report.result import Job, Series
from otel_ofu.report.svg import Dot, area, circle, curve, line, picture, steps, words
from otel_ofu.report.text import clean, counted, moment, percent, plain

MOST_LABELS = 12
LABEL_CHARACTERS = 24
LABEL_GAP = 11.0
CHARACTER = 6.4  # width of one, roughly; fonts differ
MARGIN = 60.0
DAY_S = 86400.0


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where values lie in a picture: `left`, `top`, `width`, `height` of the plot in its units."""

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def at(self, x: float, y: float) -> Dot:
        (x0, x1), (y0, y1) = self.x_range, self.y_range
        return (
            self.left + self.width * (x - x0) / (x1 - x0),
            self.top + self.height * (1 - (y - y0) / (y1 - y0)),
        )


def scatter(jobs: Sequence[Job]) -> str:
    """MFU over OFU. Jobs without either are not in it; empty when none is."""
    shown = [(job, job.ofu_then, job.mfu) for job in jobs]
    dots = [(job, o, m) for job, o, m in shown if o is not None and m is not None]
    if not dots:
        return ""
    xs, ys = steps(max(o for _, o, _ in dots) * 1.02), steps(max(m for _, _, m in dots) * 1.02)
    frame = _Frame(52, 26, 440, 400, (0, xs[-1]), (0, ys[-1]))
    parts = [*_grid(frame, xs, ys), *_guides(frame)]
    for job, ofu, mfu in sorted(dots, key=lambda d: d[0].verdict.flagged):
        kind = "dot flagged" if job.verdict.flagged else "dot"
        title = f"{job.id}: OFU {percent(ofu)}, MFU {percent(mfu)}, ratio {plain(job.ratio)}"
        parts.append(circle(frame.at(ofu, mfu), 4.5 if job.verdict.flagged else 3.2, kind, title))
    parts += _labels(frame, [d for d in dots if d[0].verdict.flagged])
    return picture(560, 474, f"MFU over OFU of {counted(len(dots), 'job')}", parts)


def timeline(series: Series, span: tuple[float, float]) -> str:
    """OFU and MFU of a job; `span` is the time that all pictures show (Unix seconds)."""
    known = [v for v in (*series.ofu.tolist(), *series.mfu.tolist()) if not math.isnan(v)]
    ys = steps(max([*known, 0.1]) * 1.02, 4)
    frame = _Frame(38, 8, 316, 92, span, (0, ys[-1]))
    parts = [*_levels(frame, ys), *_times(frame, span)]
    half_s = _width_s(series) / 2
    for values, kind in ((series.ofu, "ofu"), (series.mfu, "mfu")):
        pairs = zip((series.times_s + half_s).tolist(), values.tolist(), strict=True)
        dots = [None if math.isnan(v) else frame.at(t, v) for t, v in pairs]
        parts.append(curve(dots, f"curve {kind}"))
    return picture(360, 118, "OFU and MFU over time", parts)


def _grid(frame: _Frame, xs: Sequence[float], ys: Sequence[float]) -> Iterator[str]:
    bottom = frame.top + frame.height
    for x in xs:
        at = frame.at(x, 0)[0]
        yield line((at, frame.top), (at, bottom), "grid")
        yield words((at, bottom + 16), _level(x, xs), "tick", "middle")
    yield from _levels(frame, ys)
    yield words((frame.left + frame.width / 2, bottom + 38), "OFU, %", "axis", "middle")
    yield words((frame.left - 44, frame.top - 13), "MFU, %", "axis")


def _levels(frame: _Frame, ys: Sequence[float]) -> Iterator[str]:
    for y in ys:
        at = frame.at(0, y)[1]
        kind = "base" if y == 0 else "grid"
        yield line((frame.left, at), (frame.left + frame.width, at), kind)
        if y > 0 or len(ys) > 1:
            yield words((frame.left - 6, at + 3.5), _level(y, ys), "tick", "end")


def _level(value: float, values: Sequence[float]) -> str:
    whole = all(abs(100 * v - round(100 * v)) < 1e-6 for v in values)  # noqa: PLR2004 - rounding
    return f"{100 * value:.0f}" if whole else f"{100 * value:.1f}"


def _guides(frame: _Frame) -> Iterator[str]:
    """The band in which MFU / OFU is as it should be, and the 1:1 line."""
    low, high = NORMAL
    ends = [_end(frame, slope) for slope in (low, high, 1.0)]
    corner = [frame.at(frame.x_range[1], frame.y_range[1])] if _corner(frame) else []
    yield area([frame.at(0, 0), ends[0], *corner, ends[1]], "band")
    yield line(frame.at(0, 0), ends[2], "equal")
    x, y = ends[2]
    top = y <= frame.top + 1
    yield words(
        (x - 6, y + 14) if top else (x + 6, y + 4), "1 : 1", "tick", "end" if top else "start"
    )


def _end(frame: _Frame, slope: float) -> Dot:
    """Where a line through 0 leaves the plot."""
    x, y = frame.x_range[1], frame.y_range[1]
    return frame.at(x, slope * x) if slope * x <= y else frame.at(y / slope, y)


def _corner(frame: _Frame) -> bool:
    """Whether the corner of the plot lies in the band."""
    low, high = NORMAL
    return low < frame.y_range[1] / frame.x_range[1] < high


def _labels(frame: _Frame, dots: Sequence[tuple[Job, float, float]]) -> Iterator[str]:
    """Names of the flagged jobs that hold most GPU time, as far as there is room beside the dot."""
    places = {job.id: frame.at(ofu, mfu) for job, ofu, mfu in dots}
    taken = [_Box(x - 5, x + 5, y) for x, y in places.values()]
    for job in sorted((job for job, _, _ in dots), key=lambda j: -j.held_h)[:MOST_LABELS]:
        x, y = places[job.id]
        text = f"{_short(clean(job.id))}  \N{MULTIPLICATION SIGN} {plain(job.ratio)}"
        width = len(text) * CHARACTER
        right, left = _Box(x + 8, x + 8 + width, y), _Box(x - 8 - width, x - 8, y)
        box = next((b for b in (right, left) if b.fits(frame, taken)), None)
        if box is not None:
            taken.append(box)
            yield words((box.left, y + 4), text, "label")


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a label lies: from `left` to `right`, around the height `y`."""

    left: float
    right: float
    y: float

    def fits(self, frame: _Frame, taken: Sequence[_Box]) -> bool:
        if self.left < frame.left or self.right > frame.left + frame.width + MARGIN:
            return False
        return not any(
            abs(self.y - other.y) < LABEL_GAP
            and self.left < other.right
            and other.left < self.right
            for other in taken
        )


def _short(name: str) -> str:
    return name if len(name) <= LABEL_CHARACTERS else name[: LABEL_CHARACTERS - 1] + "…"


def _times(frame: _Frame, span: tuple[float, float]) -> Iterator[str]:
    start_s, end_s = span
    bottom = frame.top + frame.height + 14
    one_day = end_s - start_s <= DAY_S
    first, last = (moment(s)[11 if one_day else 5 :] for s in span)
    yield words((frame.left, bottom), first, "tick")
    yield words((frame.left + frame.width, bottom), last, "tick", "end")


def _width_s(series: Series) -> float:
    return float(series.times_s[1] - series.times_s[0]) if len(series.times_s) > 1 else 0.0
