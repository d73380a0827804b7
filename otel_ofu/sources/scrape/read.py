"""From the samples of a page to devices.

Enters: a `MetricsPage`, the profiles of all exporters, the registry. Leaves: a `DeviceRow` for each
device: values in registry units, gaps, owner. Series that repeat a device for each of its owners
are never summed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from otel_ofu.catalog.registry import Registry
from otel_ofu.catalog.vendors import (
    OPERAND,
    ExporterProfile,
    MetricCandidate,
    MetricRatio,
    Over,
    Vendors,
)
from otel_ofu.model import Device, Gap, GapReason
from otel_ofu.sources.scrape.identity import (
    DeviceSlot,
    Labels,
    device_of,
    moved_labels,
    owner_of,
    slot_of,
)
from otel_ofu.sources.scrape.parse import MetricsPage, Sample

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


def absence(text: str, value: float, *, dcgm: bool, is_gauge: bool) -> Gap | None:
    """The gap for `value`, which stands on the page as `text`; None if it is a value.

    Totals may pass 2^47, so that double blank is tested in gauges only; 32-bit blanks are
    compared for equality, for a clock in Hz passes them.
    """
    if math.isnan(value):
        is_nan = text.lstrip("+-").lower() == "nan"
        return Gap(GapReason.NOT_READY if is_nan else GapReason.FAILED, text[:80])
    if not dcgm:
        return None
    offset = _blank(text, value, is_gauge=is_gauge)
    return None if offset is None else Gap(*_MEANING[offset])


def _blank(text: str, value: float, *, is_gauge: bool) -> int | None:
    if (
        value >= _INT64_AS_FLOAT
    ):  # as floats the four are the same number: the text tells them apart
        exact = int(text) - _INT64 if text.isdigit() else 0
        return exact if 0 <= exact < len(_MEANING) else 0
    if is_gauge and value >= _FP64:
        exact = int(value - _FP64)
        return exact if exact < len(_MEANING) else 0
    return int(value - _INT32) if value in range(_INT32, _INT32 + len(_MEANING)) else None


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


class DeviceCells:
    """Collects what a page has of one device; read it once with `settle`."""

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
        self, ratios: Iterable[MetricRatio], registry: Registry
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


_CLOCK = "sm_clock"
_TENSOR = "tensor_active"
_PERCENT = 0.01
_FULL_PERCENT = 100


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device of one page. `timestamp_s` is the newest of its samples, if they have one."""

    device: Device
    profile_id: str
    values: Mapping[str, float]
    gaps: Mapping[str, Gap]
    owner: Mapping[str, str]
    quality: str
    timestamp_s: float | None


@dataclass(slots=True)
class _Draft:
    """A device in the making. `labels` are its own series', else those of its instances."""

    labels: Labels
    has_own_series: bool
    cells: DeviceCells = field(default_factory=DeviceCells)
    label_sets: dict[int, Labels] = field(default_factory=dict)
    timestamp_s: float | None = None


class PageMapping:
    """Maps one page; make one for each page."""

    def __init__(self, vendors: Vendors, registry: Registry, endpoint_host: str) -> None:
        self._vendors = vendors
        self._registry = registry
        self._endpoint_host = endpoint_host
        self._drafts: dict[DeviceSlot, _Draft] = {}
        self._slots: dict[tuple[str, int], DeviceSlot | None] = {}
        self._percent: frozenset[str] = frozenset()
        self._divided: set[DeviceSlot] = set()

    def devices(self, page: MetricsPage) -> list[DeviceRow]:
        """The devices of the page, those that only their MIG instances name included."""
        percent_names = {n for p in self._vendors.profiles.values() for n in p.percent_if_above_1}
        self._percent = frozenset(
            s.name for s in page.samples if s.name in percent_names and 1 < s.value <= _FULL_PERCENT
        )
        for sample in page.samples:
            self._add(sample)
        moved = moved_labels(
            (labels for draft in self._drafts.values() for labels in draft.label_sets.values()),
            self._vendors.relabelled_prefix,
        )
        return [self._row(slot, draft, moved) for slot, draft in self._drafts.items()]

    def _add(self, sample: Sample) -> None:
        for candidate in self._vendors.candidates.get(sample.name, ()):
            slot = self._slot(candidate, sample.labels)
            if slot is not None and _matches(candidate, sample.labels):
                self._put(candidate, slot, sample)
                return

    def _slot(self, candidate: MetricCandidate, labels: Labels) -> DeviceSlot | None:
        # The parser gives one mapping for each distinct block of labels, and the page keeps it.
        known = (candidate.profile_id, id(labels))
        if known not in self._slots:
            self._slots[known] = slot_of(candidate.profile_id, candidate.profile, labels)
        return self._slots[known]

    def _put(self, candidate: MetricCandidate, slot: DeviceSlot, sample: Sample) -> None:
        key, labels = candidate.row.key, sample.labels
        if slot.instance:
            self._divided.add(slot.whole)
            self._drafts.setdefault(slot.whole, _Draft(labels, has_own_series=False))
        draft = self._drafts.get(slot)
        if draft is None or not draft.has_own_series:
            cells = draft.cells if draft else DeviceCells()
            draft = self._drafts[slot] = _Draft(labels, has_own_series=True, cells=cells)
        draft.label_sets[id(labels)] = labels
        if sample.timestamp_s is not None:
            draft.timestamp_s = max(draft.timestamp_s or sample.timestamp_s, sample.timestamp_s)
        instance_keys = candidate.profile.instance_keys
        of_whole = slot.instance and instance_keys and key not in instance_keys
        holder = self._drafts[slot.whole] if of_whole else draft
        holder.cells.put(key, candidate.rank, candidate.row.over, self._value(candidate, sample))

    def _value(self, candidate: MetricCandidate, sample: Sample) -> float | Gap:
        row = candidate.row
        is_operand = row.key.startswith(OPERAND)
        is_gauge = not is_operand and self._registry.metric(row.key).kind != "counter"
        is_dcgm = candidate.profile.blanks == "dcgm"
        gap = absence(sample.text, sample.value, dcgm=is_dcgm, is_gauge=is_gauge)
        gap = gap or below(row.least, sample.value)
        scale = _PERCENT if sample.name in self._percent else row.scale
        return gap or sample.value * scale

    def _row(self, slot: DeviceSlot, draft: _Draft, moved: Mapping[str, str]) -> DeviceRow:
        profile = self._vendors.profiles[slot.profile_id]
        device = self._device(slot, draft)
        values, gaps = draft.cells.settle(profile.ratios, self._registry)
        max_clock_hz = profile.max_clock_hz.get(device.model)
        if max_clock_hz is not None:
            values.setdefault("max_sm_clock", max_clock_hz)
        for key, remedy in _needs(profile, device, is_divided=slot in self._divided):
            if key not in values and key not in gaps:
                gaps[key] = Gap(GapReason.NOT_SUPPORTED, remedy)
        owner = owner_of(profile, draft.label_sets.values(), moved)
        return DeviceRow(
            device, slot.profile_id, values, gaps, owner, profile.quality, draft.timestamp_s
        )

    def _device(self, slot: DeviceSlot, draft: _Draft) -> Device:
        whole_uuid = ""
        if slot.instance:
            whole_uuid = self._device(slot.whole, self._drafts[slot.whole]).uuid
        labels = draft.labels
        if not draft.has_own_series:
            labels = _of_whole(self._vendors.profiles[slot.profile_id], labels)
        return device_of(slot, self._vendors, labels, whole_uuid, self._endpoint_host)


def _matches(candidate: MetricCandidate, labels: Labels) -> bool:
    where = candidate.row.where
    return all(labels.get(name, "") in allowed for name, allowed in where.items())


def _of_whole(profile: ExporterProfile, labels: Labels) -> Labels:
    """The labels of an instance that are about its GPU."""
    names = profile.labels
    of_instance = [*names.instance, *names.instance_profile, *names.partition]
    if profile.instance_uuid == "own":
        of_instance += [*names.uuid, *names.model]
    return {name: value for name, value in labels.items() if name not in of_instance}


def _needs(
    profile: ExporterProfile, device: Device, *, is_divided: bool
) -> Iterator[tuple[str, str]]:
    for key, remedy in profile.needs.items():
        if key == _CLOCK and device.parent:
            continue  # the clock is the GPU's
        if key == _TENSOR and is_divided:
            yield key, "the GPU is divided: its instances have the counters"
        else:
            yield key, remedy
