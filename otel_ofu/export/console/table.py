"""A live table on a terminal.

Enters: the observations of a round. Leaves: the table redrawn in place, reasons of absent values
below it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from otel_ofu.export.console.rows import COLUMNS, DASH, GpuRow, has_nothing_new, rows
from otel_ofu.model import Observation

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

# Starting values: what fits on a screen, in rows and columns; below 0.15 the shipped rule fires,
# and 0.35 is what ordinary training reaches.
MAX_ROWS = 64
MAX_NOTES = 8
WIDE = 90
NARROW = 72
ESSENTIAL = ("ofu", "tensor_active", "clock_factor", "gpu_util")
_LOW_OFU = 0.15
_GOOD_OFU = 0.35


class GpuTable:
    """Draws on a rich `Console`. `title` stands above the table, `footer` below it."""

    def __init__(self, console: Console, *, title: str, footer: str = "Ctrl-C to stop") -> None:
        from rich.live import Live  # noqa: PLC0415 - only a terminal needs it

        self._title = title
        self._footer = footer
        self._notes: deque[str] = deque(maxlen=MAX_NOTES)
        self._began = False
        self._live: Any = Live(console=console, auto_refresh=False, vertical_overflow="visible")
        self._live.start()

    def export(self, observations: Sequence[Observation]) -> None:
        gpus = [o for o in observations if o.entity.kind == "gpu"]
        if gpus and not (self._began and has_nothing_new(gpus)):
            self._began = True
            self._live.update(self._drawn(gpus), refresh=True)

    def note(self, text: str) -> None:
        """Stands under the table, with the few before it."""
        self._notes.append(text)

    def close(self) -> None:
        """Leaves the last table on the screen."""
        self._live.stop()

    def _drawn(self, observations: Sequence[Observation]) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415 - only a terminal needs it
        from rich.text import Text  # noqa: PLC0415

        drawn, reasons = rows(observations)
        at = datetime.fromtimestamp(observations[0].window.end_s, UTC).strftime("%H:%M:%S UTC")
        more = [f"… and {len(drawn) - MAX_ROWS} more GPUs"] if len(drawn) > MAX_ROWS else []
        below = [f"{DASH} {reason}" for reason in reasons]
        return Group(
            Text(f"{self._title}  {at}", style="bold"),
            _grid(drawn[:MAX_ROWS], self._live.console.width),
            *(Text(note) for note in tuple(self._notes)),
            *(Text(line, style="dim") for line in [*more, *below, self._footer]),
        )


def _grid(drawn: Sequence[GpuRow], width: int) -> RenderableType:
    """On a narrow terminal the model goes first, then what OFU is not made of."""
    from rich import box  # noqa: PLC0415 - only a terminal needs it
    from rich.table import Table as Grid  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    names = ("gpu", "model", "job") if width >= WIDE else ("gpu", "job")
    shown = [n for n, c in enumerate(COLUMNS) if width >= NARROW or c.key in ESSENTIAL]
    for name in names:
        grid.add_column("GPU" if name == "gpu" else name, no_wrap=True)
    for number in shown:
        grid.add_column(COLUMNS[number].title, justify="right", no_wrap=True)
    for row in drawn:
        cells = [row.cells[number] for number in shown]
        texts = [Text(cells[0], style=_colour(cells[0])), *map(Text, cells[1:])]
        grid.add_row(*(Text(getattr(row, name)) for name in names), *texts)
    return grid


def _colour(ofu: str) -> str:
    """Colour repeats the number; nothing is shown by colour alone."""
    if ofu == DASH:
        return "dim"
    value = float(ofu.rstrip("%")) / 100
    if value < _LOW_OFU:
        return "red"
    return "green" if value >= _GOOD_OFU else "yellow"
