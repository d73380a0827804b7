"""The values of one device of a page, from the samples that may give each.

Enters: samples by registry key. Leaves: the values in range, the gaps, and the operands of events.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from otel_ofu.catalog.registry import Registry
from otel_ofu.catalog.vendors import OPERAND, MetricRatio, Over
from otel_ofu.model import Gap, GapReason

_MEANING = (
    (GapReason.NOT_READY, "DCGM has no value"),
    (GapReason.NOT_SUPPORTED, "DCGM does not find it"),
    (GapReason.NOT_SUPPORTED, "DCGM does not support it on this device"),
    (GapReason.NOT_PERMITTED, "DCGM may not read it"),
)
# In the order of _MEANING. Source: dcgm_structs.h, DCGM_INT32_BLANK, DCGM_INT64_BLANK,
# DCGM_FP64_BLANK and the three that follow each.
_INT32 = 0x7FFFFFF0
_INT64 = 0x7FFFFFFFFFFFFFF0
_FP64 = 2.0**47
_INT64_AS_FLOAT = 9.2e18
_MOST = 2.0**64
"""No counter has more bits; a blank is less."""
_ROUNDING = 0.01
"""Starting value: two metrics of one quantity in other units (MiB) are rounded otherwise."""
OFU_FACTORS = ("tensor_active", "engine_busy", "sm_clock")
"""What is multiplied to an OFU."""


def absence(text: str, value: float, *, dcgm: bool, is_gauge: bool) -> Gap | None:
    """The gap for `value`, which stands on the page as `text`; None if it is a value.

    Totals may pass 2^47, so that double blank is tested in gauges only; 32-bit blanks are
    compared for equality, for a clock in Hz passes them.
    """
    if math.isnan(value):
        is_nan = text.lstrip("+-").lower() == "nan"
        return Gap(GapReason.NOT_READY if is_nan else GapReason.FAILED, text[:80])
    if value > _MOST:
        return Gap(GapReason.OUT_OF_RANGE, f"{text[:80]} is no possible value")
    if not dcgm:
        return None
    offset = _blank(text, value, is_gauge=is_gauge)
    return None if offset is None else Gap(*_MEANING[offset])


def _blank(text: str, value: float, *, is_gauge: bool) -> int | None:
    if (
        value >= _INT64_AS_FLOAT
    ):  # as floats the four are the same number: the text distinguishes them
        exact = int(text) - _INT64 if text.isdigit() else 0
        return exact if 0 <= exact < len(_MEANING) else 0
    if is_gauge and value >= _FP64:
        exact = int(value - _FP64)
        return exact if exact < len(_MEANING) else 0
    return int(value - _INT32) if value in range(_INT32, _INT32 + len(_MEANING)) else None


@dataclass(frozen=True, slots=True)
class SeriesValue:
    """What one series gives: `part` tells the series of a sum apart; empty is the whole.

    `line` is where it stands on the page.
    """

    value: float | Gap
    stamp_s: float | None = None
    part: str = ""
    line: int = 0


class UnusedLine(NamedTuple):
    """A line whose value of `key` is not used, for it is not that of `used_line`.

    `is_fault`: both claim to be the same measurement. A metric that only stands in for another one
    (the edge of a chip for its junction) may differ.
    """

    key: str
    line: int
    used_line: int
    is_fault: bool


class _Other(NamedTuple):
    """A value that is not used, and the rank of its metric."""

    value: float
    line: int
    rank: int


@dataclass(slots=True)
class _Cell:
    rank: int
    over: Over
    values: list[float] = field(default_factory=list)
    parts: dict[str, float] = field(default_factory=dict)
    gap: Gap | None = None
    stamp_s: float | None = None
    line: int = 0
    others: list[_Other] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether it has a value: a sum without one of its parts has none."""
        return bool(self.values) and (self.gap is None or self.over != "sum")

    def join(self, value: float, series: SeriesValue) -> None:
        """Takes one more series of the key; of one value only the newest counts."""
        stamp_s = series.stamp_s
        if self.over == "first" and self.values:
            if stamp_s is None or self.stamp_s is None or stamp_s <= self.stamp_s:
                if value != self.values[0] and stamp_s == self.stamp_s:
                    self.others.append(_Other(value, series.line, self.rank))
                return
            self.values.clear()
        if not self.values:
            self.line = series.line
        self.values.append(value)
        self.parts.setdefault(series.part, value)
        if stamp_s is not None:
            self.stamp_s = max(stamp_s, self.stamp_s or stamp_s)

    def give_way(self, rank: int, over: Over) -> _Cell:
        """The cell of a better metric; what this one has is not used."""
        cell = _Cell(rank, over, others=self.others)
        if self.over == "first":
            cell.others += [_Other(value, self.line, self.rank) for value in self.values]
        return cell

    def pass_over(self, rank: int, series: SeriesValue) -> None:
        """A value of a metric that is not as good."""
        if isinstance(series.value, float) and self.over == "first":
            self.others.append(_Other(series.value, series.line, rank))

    def conflicts(self, key: str) -> Iterator[UnusedLine]:
        for other in self.others:
            is_same = other.rank == self.rank
            if not math.isclose(other.value, self.value(), rel_tol=0.0 if is_same else _ROUNDING):
                is_fault = is_same or key in OFU_FACTORS
                yield UnusedLine(key, other.line, self.line, is_fault)

    def value(self) -> float:
        match self.over:
            case "mean":
                return sum(self.values) / len(self.values)
            case "max":
                return max(self.values)
            case "sum":
                return self.parts.get("", sum(self.parts.values()))
            case "first":
                return self.values[0]


@dataclass(frozen=True, slots=True)
class SettledCells:
    """Values in range and gaps, disjoint by key; stamps of values; operands (keys with @)."""

    values: dict[str, float]
    gaps: dict[str, Gap]
    stamps: dict[str, float]
    operands: dict[str, float]
    conflicts: tuple[UnusedLine, ...] = ()


class DeviceCells:
    """Collects what a page has of one device; read it once with `settle`."""

    def __init__(self) -> None:
        self._cells: dict[str, _Cell] = {}

    def put(self, key: str, rank: int, over: Over, series: SeriesValue) -> None:
        """A lower rank replaces what is there, an equal one joins it; a value replaces a gap."""
        cell, value = self._cells.get(key), series.value
        is_gap = isinstance(value, Gap)
        if cell is not None and _keeps(cell, rank, is_gap=is_gap):
            cell.pass_over(rank, series)
            return
        if cell is None or rank != cell.rank:
            cell = cell.give_way(rank, over) if cell else _Cell(rank, over)
            self._cells[key] = cell
        if isinstance(value, Gap):
            cell.gap = cell.gap or value
        else:
            cell.join(value, series)

    def settle(self, ratios: Iterable[MetricRatio], registry: Registry) -> SettledCells:
        """The values in range and the gaps; a key is in one of them."""
        full = {key: cell for key, cell in self._cells.items() if cell.is_full}
        gaps = {key: cell.gap for key, cell in self._cells.items() if cell.gap and key not in full}
        values = {key: cell.value() for key, cell in full.items()}
        stamps = {key: cell.stamp_s for key, cell in full.items() if cell.stamp_s is not None}
        for ratio in ratios:
            over, under = values.get(ratio.over), values.get(ratio.under)
            if ratio.key not in values and over is not None and under is not None:
                values[ratio.key] = over / under if under else float("nan")
                both = [stamps[key] for key in (ratio.over, ratio.under) if key in stamps]
                stamps |= {ratio.key: min(both)} if both else {}
        operands = {key: values.pop(key) for key in list(values) if key.startswith(OPERAND)}
        checked = {key: registry.check(key, value) for key, value in values.items()}
        gaps |= {key: gap for key, gap in checked.items() if gap is not None}
        return SettledCells(
            {key: value for key, value in values.items() if key not in gaps},
            {key: gap for key, gap in gaps.items() if not key.startswith(OPERAND)},
            {key: stamp_s for key, stamp_s in stamps.items() if key in values and key not in gaps},
            operands,
            tuple(c for k, cell in full.items() if k in values for c in cell.conflicts(k)),
        )


def _keeps(cell: _Cell, rank: int, *, is_gap: bool) -> bool:
    if is_gap:
        is_of_sum = cell.over == "sum" and rank == cell.rank
        return (bool(cell.values) and not is_of_sum) or rank > cell.rank
    return bool(cell.values) and rank > cell.rank


def below(least: float, value: float) -> Gap | None:
    """The gap for a raw value that is too small to be in the unit of its row."""
    if 0 < value < least:
        return Gap(GapReason.OUT_OF_RANGE, f"{value:g} is too small for this metric's unit")
    return None
