"""From the samples of a page to devices.

Enters: a `Page`, the profiles of all exporters, the registry. Leaves: a `DeviceRow` for each
device: values in registry units, gaps, owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from otel_ofu.catalog.registry import Registry
from otel_ofu.catalog.vendors import OPERAND, Candidate, Profile, Vendors
from otel_ofu.model import Device, Gap, GapReason
from otel_ofu.sources.scrape.blanks import absence
from otel_ofu.sources.scrape.cells import Cells, below
from otel_ofu.sources.scrape.identity import Labels, Slot, device_of, slot_of
from otel_ofu.sources.scrape.owner import moved_labels, owner_of
from otel_ofu.sources.scrape.parse import Page, Sample

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
    cells: Cells = field(default_factory=Cells)
    label_sets: dict[int, Labels] = field(default_factory=dict)
    timestamp_s: float | None = None


class PageMapping:
    """Maps one page; make one for each page."""

    def __init__(self, vendors: Vendors, registry: Registry, endpoint_host: str) -> None:
        self._vendors = vendors
        self._registry = registry
        self._endpoint_host = endpoint_host
        self._drafts: dict[Slot, _Draft] = {}
        self._slots: dict[tuple[str, int], Slot | None] = {}
        self._percent: frozenset[str] = frozenset()
        self._divided: set[Slot] = set()

    def devices(self, page: Page) -> list[DeviceRow]:
        """The devices of the page, those that only their MIG instances tell of included."""
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

    def _slot(self, candidate: Candidate, labels: Labels) -> Slot | None:
        # The parser gives one mapping for each distinct block of labels, and the page keeps it.
        known = (candidate.profile_id, id(labels))
        if known not in self._slots:
            self._slots[known] = slot_of(candidate.profile_id, candidate.profile, labels)
        return self._slots[known]

    def _put(self, candidate: Candidate, slot: Slot, sample: Sample) -> None:
        key, labels = candidate.row.key, sample.labels
        if slot.instance:
            self._divided.add(slot.whole)
            self._drafts.setdefault(slot.whole, _Draft(labels, has_own_series=False))
        draft = self._drafts.get(slot)
        if draft is None or not draft.has_own_series:
            cells = draft.cells if draft else Cells()
            draft = self._drafts[slot] = _Draft(labels, has_own_series=True, cells=cells)
        draft.label_sets[id(labels)] = labels
        if sample.timestamp_s is not None:
            draft.timestamp_s = max(draft.timestamp_s or sample.timestamp_s, sample.timestamp_s)
        instance_keys = candidate.profile.instance_keys
        of_whole = slot.instance and instance_keys and key not in instance_keys
        holder = self._drafts[slot.whole] if of_whole else draft
        holder.cells.put(key, candidate.rank, candidate.row.over, self._value(candidate, sample))

    def _value(self, candidate: Candidate, sample: Sample) -> float | Gap:
        row = candidate.row
        is_operand = row.key.startswith(OPERAND)
        is_gauge = not is_operand and self._registry.metric(row.key).kind != "counter"
        is_dcgm = candidate.profile.blanks == "dcgm"
        gap = absence(sample.text, sample.value, dcgm=is_dcgm, is_gauge=is_gauge)
        gap = gap or below(row.least, sample.value)
        scale = _PERCENT if sample.name in self._percent else row.scale
        return gap or sample.value * scale

    def _row(self, slot: Slot, draft: _Draft, moved: Mapping[str, str]) -> DeviceRow:
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

    def _device(self, slot: Slot, draft: _Draft) -> Device:
        whole_uuid = ""
        if slot.instance:
            whole_uuid = self._device(slot.whole, self._drafts[slot.whole]).uuid
        labels = draft.labels
        if not draft.has_own_series:
            labels = _of_whole(self._vendors.profiles[slot.profile_id], labels)
        return device_of(slot, self._vendors, labels, whole_uuid, self._endpoint_host)


def _matches(candidate: Candidate, labels: Labels) -> bool:
    where = candidate.row.where
    return all(labels.get(name, "") in allowed for name, allowed in where.items())


def _of_whole(profile: Profile, labels: Labels) -> Labels:
    """What the labels of an instance say about its GPU."""
    names = profile.labels
    of_instance = [*names.instance, *names.instance_profile, *names.partition]
    if profile.instance_uuid == "own":
        of_instance += [*names.uuid, *names.model]
    return {name: value for name, value in labels.items() if name not in of_instance}


def _needs(profile: Profile, device: Device, *, is_divided: bool) -> Iterator[tuple[str, str]]:
    for key, remedy in profile.needs.items():
        if key == _CLOCK and device.parent:
            continue  # the clock is the GPU's
        if key == _TENSOR and is_divided:
            yield key, "the GPU is divided: its instances have the counters"
        else:
            yield key, remedy
