"""The terminal: a live table, or one line per round where the output is no terminal.

Enters: the observations of a round. Leaves: rows with a dash where a value is absent, and why; the
table redrawn in place; or a line such as
`12:00:10 8 GPUs OFU 41.2% (min 40.1% max 42.0%) GPU util 99% power 5.1 kW`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from otel_ofu.model import Attribute, GapReason, Observation

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


DASH = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """`key` is the registry key; `show` writes its value in few characters."""

    title: str
    key: str
    show: Callable[[float], str]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _whole_percent(value: float) -> str:
    return f"{100 * value:.0f}%"


def _watts(value: float) -> str:
    return f"{value:.0f} W"


COLUMNS = (
    Column("OFU", "ofu", _percent),
    Column("tensor", "tensor_active", _percent),
    Column("clock", "clock_factor", lambda value: f"{value:.2f}"),
    Column("SM", "sm_active", _whole_percent),
    Column("DRAM", "dram_active", _whole_percent),
    Column("GPU util", "gpu_util", _whole_percent),
    Column("power", "power", _watts),
)


@dataclass(frozen=True, slots=True)
class GpuRow:
    """`cells` stand in the order of COLUMNS."""

    gpu: str
    model: str
    job: str
    cells: Sequence[str]


def rows(observations: Sequence[Observation]) -> tuple[list[GpuRow], list[str]]:
    """The rows, and one sentence for each distinct reason why something is absent."""
    gpus = [o for o in observations if o.entity.kind == "gpu"]
    return [_row(o) for o in gpus], _reasons(gpus)


def has_nothing_new(observations: Sequence[Observation]) -> bool:
    """Whether all cells are merely not due yet: the exporter refreshes less often than we read."""
    cells = [(o, column.key) for o in observations for column in COLUMNS]
    return not any(key in o.values or (key in o.gaps and not o.is_to_come(key)) for o, key in cells)


def _row(observation: Observation) -> GpuRow:
    attributes = observation.entity.attributes
    return GpuRow(
        gpu=_name(attributes),
        model=short_model(str(attributes.get("hw.model", ""))) or DASH,
        job=str(attributes.get("ofu.job.id", DASH)),
        cells=[
            column.show(observation.values[column.key])
            if column.key in observation.values
            else DASH
            for column in COLUMNS
        ],
    )


def _name(attributes: Mapping[str, Attribute]) -> str:
    index = attributes.get("ofu.gpu.index")
    uuid = str(attributes.get("hw.id", ""))
    if uuid.startswith("MIG-"):
        return f"{attributes.get('ofu.mig.profile') or 'MIG'} {uuid[4:12]}"
    return str(index) if index is not None else uuid[:12]


def short_model(model: str) -> str:
    """`NVIDIA H100 80GB HBM3` -> `H100 80GB HBM3`."""
    return model.removeprefix("NVIDIA ").removeprefix("Tesla ")[:24]


def _reasons(gpus: Sequence[Observation]) -> list[str]:
    """Absent cells of the table by reason: `OFU, tensor of 0, 1: not ready (first sample)`."""
    found: dict[tuple[GapReason, str], tuple[dict[str, None], dict[str, None]]] = {}
    for observation in gpus:
        gpu = _name(observation.entity.attributes)
        for column in COLUMNS:
            gap = observation.gaps.get(column.key)
            if gap is None or column.key in observation.values:
                continue
            titles, names = found.setdefault((gap.reason, gap.detail), ({}, {}))
            titles[column.title] = names[gpu] = None
    return [
        _sentence(titles, names, len(gpus), reason, detail)
        for (reason, detail), (titles, names) in found.items()
    ]


def _sentence(
    titles: Collection[str], names: Collection[str], total: int, reason: GapReason, detail: str
) -> str:
    where = "" if len(names) == total else f" of GPU {', '.join(names)}"
    why = reason.value.replace("_", " ")
    return f"{', '.join(titles)}{where}: {why}" + (f" ({detail})" if detail else "")


class Lines:
    """Writes to `out`; the reasons of absent values are written when they change."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._reasons: list[str] = []
        self._shown_s: float | None = None

    def export(self, observations: Sequence[Observation]) -> None:
        gpus = [o for o in observations if o.entity.kind == "gpu"]
        end_s = gpus[0].window.end_s if gpus else self._shown_s
        if end_s == self._shown_s or (self._shown_s is not None and has_nothing_new(gpus)):
            return
        self._shown_s = end_s
        _, reasons = rows(gpus)
        self._write(summary(gpus))
        if reasons != self._reasons:
            for reason in reasons:
                self._write(f"         {reason}")
            self._reasons = reasons

    def note(self, text: str) -> None:
        """Writes a line of its own."""
        self._write(text)

    def close(self) -> None:
        self._out.flush()

    def _write(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()


def summary(gpus: Sequence[Observation]) -> str:
    """The round in one line; statistics are over the GPUs that have a value."""
    at = datetime.fromtimestamp(gpus[0].window.end_s, UTC).strftime("%H:%M:%S")
    parts = [at, f"{len(gpus)} GPU{'s' if len(gpus) != 1 else ''}", _ofu(gpus)]
    for title, key in (("tensor", "tensor_active"), ("GPU util", "gpu_util")):
        values = _values(gpus, key)
        if values:
            parts.append(f"{title} {100 * sum(values) / len(values):.0f}%")
    power = _values(gpus, "power")
    if power:
        parts.append(f"power {sum(power) / 1000:.1f} kW")
    return "  ".join(parts)


def _ofu(gpus: Sequence[Observation]) -> str:
    values = _values(gpus, "ofu")
    if not values:
        return f"OFU {DASH}"
    mean = f"OFU {100 * sum(values) / len(values):.1f}%"
    known = f" of {len(values)} GPUs" if len(values) < len(gpus) else ""
    spread = f" (min {100 * min(values):.1f}% max {100 * max(values):.1f}%)"
    return mean + known + (spread if len(values) > 1 else "")


def _values(gpus: Sequence[Observation], key: str) -> list[float]:
    return [o.values[key] for o in gpus if key in o.values]


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
