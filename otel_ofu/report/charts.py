"""The pictures of the page: all jobs against the 1:1 line, and one job over time.

Enters: jobs. Leaves: SVG; colours are classes of page.css.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_ofu.report.reasons import NORMAL
from otel_ofu.report.result import Job, RatioSeries
from otel_ofu.report.text import clean, counted, html, moment, percent, plain

Dot = tuple[float, float]


def picture(width: float, height: float, label: str, parts: Sequence[str]) -> str:
    """`label` is read out in place of the picture."""
    return (
        f'<svg viewBox="0 0 {number(width)} {number(height)}" role="img" '
        f'aria-label="{html(label)}">'
        f"{''.join(parts)}</svg>"
    )


def line(start: Dot, end: Dot, kind: str) -> str:
    (x1, y1), (x2, y2) = start, end
    where = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return f'<line class="{kind}" {where}/>'


def text_at(at: Dot, text: str, kind: str = "", anchor: str = "start") -> str:
    where = f'x="{number(at[0])}" y="{number(at[1])}"'
    named = f' class="{kind}"' if kind else ""
    anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f"<text{named} {where}{anchored}>{html(text)}</text>"


def area(corners: Sequence[Dot], kind: str) -> str:
    return f'<polygon class="{kind}" points="{_joined(corners)}"/>'


def circle(at: Dot, radius: float, kind: str, title: str) -> str:
    where = f'cx="{number(at[0])}" cy="{number(at[1])}" r="{number(radius)}"'
    return f'<circle class="{kind}" {where}><title>{html(title)}</title></circle>'


def curve(dots: Sequence[Dot | None], kind: str) -> str:
    """A line that breaks where a value is missing; a value alone between gaps is a dot."""
    runs = [run for run in _runs(dots) if run]
    lines = [f'<polyline class="{kind}" points="{_joined(run)}"/>' for run in runs if len(run) > 1]
    alone = [
        f'<circle class="{kind} alone" cx="{number(x)}" cy="{number(y)}" r="1.2"/>'
        for run in runs
        if len(run) == 1
        for x, y in run
    ]
    return "".join(lines + alone)


def steps(highest: float, most: int = 5) -> list[float]:
    """Round numbers from 0 to the first at or above `highest` (> 0), at most `most` steps."""
    rough = max(highest, 1e-9) / most
    power = 10.0 ** math.floor(math.log10(rough))
    size = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * (1 - 1e-9))
    return [size * n for n in range(math.ceil(highest / size - 1e-9) + 1)]


def number(value: float) -> str:
    """One digit behind the point, none where it is 0."""
    return f"{value:.1f}".removesuffix(".0")


def _runs(dots: Sequence[Dot | None]) -> Iterator[list[Dot]]:
    run: list[Dot] = []
    for dot in dots:
        if dot is None:
            yield run
            run = []
        else:
            run.append(dot)
    yield run


def _joined(dots: Sequence[Dot]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in dots)


# Starting values, in units of the picture: what is readable at 560 x 474.
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


def timeline(series: RatioSeries, span: tuple[float, float]) -> str:
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
        yield text_at((at, bottom + 16), _level(x, xs), "tick", "middle")
    yield from _levels(frame, ys)
    yield text_at((frame.left + frame.width / 2, bottom + 38), "OFU, %", "axis", "middle")
    yield text_at((frame.left - 44, frame.top - 13), "MFU, %", "axis")


def _levels(frame: _Frame, ys: Sequence[float]) -> Iterator[str]:
    for y in ys:
        at = frame.at(0, y)[1]
        kind = "base" if y == 0 else "grid"
        yield line((frame.left, at), (frame.left + frame.width, at), kind)
        if y > 0 or len(ys) > 1:
            yield text_at((frame.left - 6, at + 3.5), _level(y, ys), "tick", "end")


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
    yield text_at(
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
    positions = {job.id: frame.at(ofu, mfu) for job, ofu, mfu in dots}
    taken = [_Box(x - 5, x + 5, y) for x, y in positions.values()]
    for job in sorted((job for job, _, _ in dots), key=lambda j: -j.held_h)[:MOST_LABELS]:
        x, y = positions[job.id]
        text = f"{_short(clean(job.id))}  \N{MULTIPLICATION SIGN} {plain(job.ratio)}"
        width = len(text) * CHARACTER
        right, left = _Box(x + 8, x + 8 + width, y), _Box(x - 8 - width, x - 8, y)
        box = next((b for b in (right, left) if b.fits(frame, taken)), None)
        if box is not None:
            taken.append(box)
            yield text_at((box.left, y + 4), text, "label")


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
    yield text_at((frame.left, bottom), first, "tick")
    yield text_at((frame.left + frame.width, bottom), last, "tick", "end")


def _width_s(series: RatioSeries) -> float:
    return float(series.times_s[1] - series.times_s[0]) if len(series.times_s) > 1 else 0.0
