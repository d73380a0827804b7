"""The few shapes that the pictures need, as SVG text. Colours are classes of page.css."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from otel_ofu.report.text import html

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


def words(at: Dot, text: str, kind: str = "", anchor: str = "start") -> str:
    where = f'x="{number(at[0])}" y="{number(at[1])}"'
    named = f' class="{kind}"' if kind else ""
    placed = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f"<text{named} {where}{placed}>{html(text)}</text>"


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
