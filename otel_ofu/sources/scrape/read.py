"""From the samples of a page to devices.

Enters: a `MetricsPage`, the profiles of all exporters, the registry, the stamps that are taken.
Leaves: a `DeviceRow` for each device: values in registry units, gaps, owner. Series that repeat a
device for each of its owners are never summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from otel_ofu.catalog.registry import Registry
from otel_ofu.catalog.vendors import (
    OPERAND,
    ExporterProfile,
    MetricCandidate,
    Vendors,
)
from otel_ofu.model import Device, Gap, GapReason
from otel_ofu.sources.scrape.cells import DeviceCells, absence, below
from otel_ofu.sources.scrape.identity import (
    DeviceSlot,
    Labels,
    device_of,
    moved_labels,
    owner_of,
    slot_of,
)
from otel_ofu.sources.scrape.parse import MetricsPage, Sample
from otel_ofu.sources.scrape.stamps import StampLimits

_CLOCK = "sm_clock"
_TENSOR = "tensor_active"
_PERCENT = 0.01
_FULL_PERCENT = 100


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device of one page. `stamps` are the times of the values that have one (Unix time).

    `newest_s` is the last stamp of all its samples, those that are too old included.
    """

    device: Device
    profile_id: str
    values: Mapping[str, float]
    gaps: Mapping[str, Gap]
    owner: Mapping[str, str]
    quality: str
    stamps: Mapping[str, float]
    newest_s: float | None


@dataclass(slots=True)
class _Draft:
    """A device in the making. `labels` are its own series', else those of its instances."""

    labels: Labels
    has_own_series: bool
    cells: DeviceCells = field(default_factory=DeviceCells)
    label_sets: dict[int, Labels] = field(default_factory=dict)
    newest_s: float | None = None


class PageMapping:
    """Maps one page; make one for each page."""

    def __init__(
        self,
        vendors: Vendors,
        registry: Registry,
        endpoint_host: str,
        limits: StampLimits,
    ) -> None:
        self._limits = limits
        self._vendors = vendors
        self._registry = registry
        self._endpoint_host = endpoint_host
        self._drafts: dict[DeviceSlot, _Draft] = {}
        self._slots: dict[tuple[str, int], DeviceSlot | None] = {}
        self._percent: frozenset[str] = frozenset()
        self._divided: set[DeviceSlot] = set()
        self._is_cut_off = False

    def devices(self, page: MetricsPage) -> list[DeviceRow]:
        """The devices of the page, those that only their MIG instances name included."""
        percent_names = {n for p in self._vendors.profiles.values() for n in p.percent_if_above_1}
        self._percent = frozenset(
            s.name for s in page.samples if s.name in percent_names and 1 < s.value <= _FULL_PERCENT
        )
        self._is_cut_off = page.cut_off is not None
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
        untimely = self._untimely(draft, sample)
        if not untimely:  # the labels of a sample of yesterday do not tell whose the GPU is
            draft.label_sets[id(labels)] = labels
        instance_keys = candidate.profile.instance_keys
        of_whole = slot.instance and instance_keys and key not in instance_keys
        holder = self._drafts[slot.whole] if of_whole else draft
        value = untimely or self._value(candidate, sample)
        holder.cells.put(key, candidate.rank, candidate.row.over, value, sample.timestamp_s)

    def _untimely(self, draft: _Draft, sample: Sample) -> Gap | None:
        if sample.timestamp_s is None:
            return None
        gap = self._limits.gap(sample.timestamp_s)
        if gap is None or gap.reason is GapReason.STALE:
            draft.newest_s = max(sample.timestamp_s, draft.newest_s or 0.0)
        return gap

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
        settled = draft.cells.settle(profile.ratios, self._registry)
        values, gaps = settled.values, settled.gaps
        max_clock_hz = profile.max_clock_hz.get(device.model)
        if max_clock_hz is not None:
            values.setdefault("max_sm_clock", max_clock_hz)
        for key, remedy in _needs(profile, device, is_divided=slot in self._divided):
            if key not in values and key not in gaps:
                gaps[key] = self._absent(remedy)
        owner = owner_of(profile, draft.label_sets.values(), moved)
        return DeviceRow(
            device,
            slot.profile_id,
            values,
            gaps,
            owner,
            profile.quality,
            settled.stamps,
            draft.newest_s,
        )

    def _absent(self, remedy: str) -> Gap:
        if self._is_cut_off:
            return Gap(GapReason.FAILED, "the page is cut off")
        return Gap(GapReason.NOT_SUPPORTED, remedy)

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
