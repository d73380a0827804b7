"""From the samples of a page to devices.

Enters: a `MetricsPage`, the profiles of all exporters, the registry, the stamps that are taken.
Leaves: a `DeviceRow` for each device: values in registry units, gaps, owners. Series that repeat a
device for each of its owners are never summed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from otel_ofu.catalog.registry import Registry
from otel_ofu.catalog.vendors import (
    INFO,
    OPERAND,
    ExporterProfile,
    MetricCandidate,
    Vendors,
)
from otel_ofu.model import Device, Gap, GapReason, Owner
from otel_ofu.sources.scrape.cells import DeviceCells, SeriesValue, UnusedLine, absence, below
from otel_ofu.sources.scrape.identity import (
    DeviceSlot,
    Labels,
    device_of,
    moved_labels,
    owners_of,
    slot_of,
)
from otel_ofu.sources.scrape.parse import MetricsPage, Sample
from otel_ofu.sources.scrape.stamps import StampLimits

_CLOCK = "sm_clock"
_MAX_CLOCK = "max_sm_clock"
_TENSOR = "tensor_active"
_PERCENT = 0.01
_FULL_PERCENT = 100
_MOST_BITS = 2**63
_FILL = re.compile(r"\{(\w+)\}")
_LONGEST_CODE = 4  # digits; NVIDIA's XIDs have three


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device of one page. `stamps` are the times of the values that have one (Unix time).

    `newest_s` is the last stamp of all its samples, those that are too old included. `last_codes`
    are the codes of the last events by registry key, as the exporter shows them until the next.
    `conflicts` are the lines that differ from the one that is used.
    """

    device: Device
    profile_id: str
    values: Mapping[str, float]
    gaps: Mapping[str, Gap]
    owners: tuple[Owner, ...]
    quality: str
    stamps: Mapping[str, float]
    newest_s: float | None
    last_codes: Mapping[str, float]
    conflicts: tuple[UnusedLine, ...] = ()


@dataclass(slots=True)
class _Draft:
    """A device in the making. `labels` are its own series', else those of its instances."""

    labels: Labels
    has_own_series: bool
    cells: DeviceCells = field(default_factory=DeviceCells)
    label_sets: dict[int, Labels] = field(default_factory=dict)
    newest_s: float | None = None
    info: Labels = field(default_factory=dict)


class MappingReport(Protocol):
    """Gets to know what each sample of a page became."""

    def mapped(
        self, sample: Sample, profile_id: str, slot: DeviceSlot, key: str, value: float | Gap
    ) -> None:
        """A key may be one that begins with @. Several keys of one sample are several calls."""

    def refused(self, sample: Sample, candidates: Sequence[MetricCandidate]) -> None:
        """The name is known, and none of its rows reads a series with these labels."""


class PageMapping:
    """Maps one page; make one for each page."""

    def __init__(
        self,
        vendors: Vendors,
        registry: Registry,
        endpoint_host: str,
        limits: StampLimits,
        trace: MappingReport | None = None,
    ) -> None:
        self._limits = limits
        self._trace = trace
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
        moved = self.moved()
        return [self._row(slot, draft, moved) for slot, draft in self._drafts.items()]

    def moved(self) -> Mapping[str, str]:
        """Labels that Prometheus moved out of its own way -> their names on this page."""
        return moved_labels(
            (labels for draft in self._drafts.values() for labels in draft.label_sets.values()),
            self._vendors.relabelled_prefix,
        )

    def device(self, slot: DeviceSlot) -> Device:
        """The device of a slot of the page."""
        return self._device(slot, self._drafts[slot])

    def _add(self, sample: Sample) -> None:
        candidates = self._vendors.candidates.get(sample.name, ())
        for candidate in candidates:
            slot = self._slot(candidate, sample.labels)
            if slot is not None and _matches(candidate, sample.labels):
                self._put(candidate, slot, sample)
                return
        if self._trace is not None and candidates:
            self._trace.refused(sample, candidates)

    def _slot(self, candidate: MetricCandidate, labels: Labels) -> DeviceSlot | None:
        # The parser gives one mapping for each distinct block of labels, and the page keeps it.
        known = (candidate.profile_id, id(labels))
        if known not in self._slots:
            self._slots[known] = slot_of(candidate.profile_id, candidate.profile, labels)
        return self._slots[known]

    def _put(self, candidate: MetricCandidate, slot: DeviceSlot, sample: Sample) -> None:
        draft = self._draft(slot, sample.labels)
        untimely = self._untimely(draft, sample)
        if not untimely:  # the labels of a sample of yesterday do not tell whose the GPU is
            draft.label_sets[id(sample.labels)] = sample.labels
        row, instance_keys = candidate.row, candidate.profile.instance_keys
        if row.key == INFO:
            draft.info = sample.labels
        part = "/".join(filter(None, (sample.labels.get(name) for name in row.by)))
        for key, value in self._values(candidate, sample):
            of_whole = slot.instance and instance_keys and key not in instance_keys
            holder = slot.whole if of_whole and key != INFO else slot
            series = SeriesValue(untimely or value, sample.timestamp_s, part, sample.line)
            self._drafts[holder].cells.put(key, candidate.rank, row.over, series)
            if self._trace is not None:
                self._trace.mapped(sample, slot.profile_id, holder, key, series.value)

    def _draft(self, slot: DeviceSlot, labels: Labels) -> _Draft:
        """The draft of a slot that has a series of its own, and that of its GPU."""
        if slot.instance:
            self._divided.add(slot.whole)
            self._drafts.setdefault(slot.whole, _Draft(labels, has_own_series=False))
        draft = self._drafts.get(slot)
        if draft is None or not draft.has_own_series:
            cells = draft.cells if draft else DeviceCells()
            draft = self._drafts[slot] = _Draft(labels, has_own_series=True, cells=cells)
        return draft

    def _untimely(self, draft: _Draft, sample: Sample) -> Gap | None:
        if sample.timestamp_s is None:
            return None
        gap = self._limits.gap(sample.timestamp_s)
        if gap is None or gap.reason is GapReason.STALE:
            draft.newest_s = max(sample.timestamp_s, draft.newest_s or 0.0)
        return gap

    def _values(
        self, candidate: MetricCandidate, sample: Sample
    ) -> Iterator[tuple[str, float | Gap]]:
        row = candidate.row
        if row.bits:
            yield from self._bits(candidate, sample)
        elif (key := _filled(row.key, sample.labels)) is not None:
            gap = self._absence(candidate, sample, key) or below(row.least, sample.value)
            scale = _PERCENT if sample.name in self._percent else row.scale
            yield key, gap or sample.value * scale

    def _bits(
        self, candidate: MetricCandidate, sample: Sample
    ) -> Iterator[tuple[str, float | Gap]]:
        for key, bit in candidate.row.bits.items():
            gap = self._absence(candidate, sample, key)
            if gap is None and not 0 <= sample.value < _MOST_BITS:
                gap = Gap(GapReason.OUT_OF_RANGE, f"{sample.text[:80]} is no bit mask")
            yield key, gap or float(int(sample.value) & bit != 0)

    def _absence(self, candidate: MetricCandidate, sample: Sample, key: str) -> Gap | None:
        is_operand = key.startswith(OPERAND)
        is_gauge = not is_operand and self._registry.metric(key).kind != "counter"
        is_dcgm = candidate.profile.blanks == "dcgm"
        return absence(sample.text, sample.value, dcgm=is_dcgm, is_gauge=is_gauge)

    def _row(self, slot: DeviceSlot, draft: _Draft, moved: Mapping[str, str]) -> DeviceRow:
        profile = self._vendors.profiles[slot.profile_id]
        device = self._device(slot, draft)
        settled = draft.cells.settle(profile.ratios, self._registry)
        values, gaps = settled.values, settled.gaps
        for key, remedy in _needs(profile, device, is_divided=slot in self._divided):
            if key not in values and key not in gaps:
                gaps[key] = self._absent(remedy)
        return DeviceRow(
            device=device,
            profile_id=slot.profile_id,
            values=values,
            gaps=gaps,
            owners=owners_of(profile, draft.label_sets.values(), moved),
            quality=profile.quality,
            stamps=settled.stamps,
            newest_s=draft.newest_s,
            last_codes=_last_codes(profile, settled.operands),
            conflicts=settled.conflicts,
        )

    def _absent(self, remedy: str) -> Gap:
        if self._is_cut_off:
            return Gap(GapReason.FAILED, "the page is cut off")
        return Gap(GapReason.NOT_SUPPORTED, remedy)

    def _device(self, slot: DeviceSlot, draft: _Draft) -> Device:
        whole_uuid = ""
        if slot.instance:
            whole_uuid = self._device(slot.whole, self._drafts[slot.whole]).uuid
        labels = {**draft.info, **draft.labels} if draft.info else draft.labels
        if not draft.has_own_series:
            labels = _of_whole(self._vendors.profiles[slot.profile_id], labels)
        return device_of(slot, self._vendors, labels, whole_uuid, self._endpoint_host)


def _last_codes(profile: ExporterProfile, operands: Mapping[str, float]) -> dict[str, float]:
    found = {key: operands.get(operand, -1.0) for key, operand in profile.last_codes.items()}
    most = 10.0**_LONGEST_CODE
    return {key: code for key, code in found.items() if 0 <= code < most and code.is_integer()}


def _filled(key: str, labels: Labels) -> str | None:
    """`xid:{xid}` with the code of that label; None where the label has no code."""
    name = _FILL.search(key)
    if name is None:
        return key
    code = labels.get(name[1], "")
    if not (code.isascii() and code.isdecimal() and len(code) <= _LONGEST_CODE):
        return None
    return key.replace(name[0], str(int(code)))


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
    if profile.no_model and not device.model:
        yield _MAX_CLOCK, profile.no_model
