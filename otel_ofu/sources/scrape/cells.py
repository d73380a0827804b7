"""The values of one device, put together from the series of a page.

Enters: values and gaps, each with the rank of the row that read it. Leaves: one value or gap for
each key. Series that repeat a device for each of its owners are never summed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from otel_ofu.catalog.registry import Registry
from otel_ofu.catalog.vendors import OPERAND, Over, Ratio
from otel_ofu.model import Gap, GapReason


@dataclass(slots=True)
class _Cell:
    rank: int
    over: Over
    values: list[float] = field(default_factory=list)
    gap: Gap | None = None

    def value(self) -> float:
        match self.over:
            case "mean":
                return sum(self.values) / len(self.values)
            case "max":
                return max(self.values)
            case "first":
                return self.values[0]


class Cells:
    """Collects what a page says about one device; read it once with `settle`."""

    def __init__(self) -> None:
        self._cells: dict[str, _Cell] = {}

    def put(self, key: str, rank: int, over: Over, value: float | Gap) -> None:
        """A lower rank replaces what is there, an equal one joins it; a value replaces a gap."""
        cell = self._cells.get(key)
        is_gap = isinstance(value, Gap)
        if cell is not None and _keeps(cell, rank, is_gap=is_gap):
            return
        if cell is None or rank != cell.rank:
            cell = self._cells[key] = _Cell(rank, over)
        if isinstance(value, Gap):
            cell.gap = cell.gap or value
        else:
            cell.values.append(value)

    def settle(
        self, ratios: Iterable[Ratio], registry: Registry
    ) -> tuple[dict[str, float], dict[str, Gap]]:
        """The values in range and the gaps; a key is in one of them."""
        values = {key: cell.value() for key, cell in self._cells.items() if cell.values}
        gaps = {key: cell.gap for key, cell in self._cells.items() if cell.gap and not cell.values}
        for ratio in ratios:
            over, under = values.get(ratio.over), values.get(ratio.under)
            if ratio.key not in values and over is not None and under is not None:
                values[ratio.key] = over / under if under else float("nan")
        for key in [key for key in values if not key.startswith(OPERAND)]:
            gap = registry.check(key, values[key])
            if gap is not None:
                gaps[key] = gap
        return (
            {k: v for k, v in values.items() if k not in gaps and not k.startswith(OPERAND)},
            {k: gap for k, gap in gaps.items() if not k.startswith(OPERAND)},
        )


def _keeps(cell: _Cell, rank: int, *, is_gap: bool) -> bool:
    if is_gap:
        return bool(cell.values) or rank > cell.rank
    return bool(cell.values) and rank > cell.rank


def below(least: float, value: float) -> Gap | None:
    """The gap for a raw value that is too small to be in the unit of its row."""
    if 0 < value < least:
        return Gap(GapReason.OUT_OF_RANGE, f"{value:g} is too small for this metric's unit")
    return None
