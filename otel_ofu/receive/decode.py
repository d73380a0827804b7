"""OTLP requests -> batches of values by entity, ready for the store.

Enters: bodies, protobuf or JSON. Leaves: an `Intake` for each. A resource that looks as it did the
last time but for times and values is read by its layout, without parsing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Entity
from otel_ofu.net.fast_protobuf import require_fast_protobuf
from otel_ofu.receive.intake import FORGET_S, Intake, IntakeLimiter, PointBatch, owner_of
from otel_ofu.receive.keys import JobNames
from otel_ofu.receive.layouts import Bytes, Columns, Layout, SharedLayouts
from otel_ofu.receive.otlp_json import read_json
from otel_ofu.receive.points import MalformedError, RawResource, RequestSizeCount, RequestSizeLimits
from otel_ofu.receive.rejected import NameCounts
from otel_ofu.receive.sorter import Owner, PointSorter, SortedPoints
from otel_ofu.receive.wire import WireReader, resource_slices

# Starting values: forms of one resource that are remembered, and how often the forgotten go.
_MOST_LAYOUTS = 8
_SWEEP_S = 60.0
# Of protobuf: the tag of ResourceMetrics.resource, and the bit of a length that goes on.
_RESOURCE = 0x0A
_MORE = 0x80
_SHORTEST = 3


@dataclass(slots=True)
class _KnownResource:
    """A resource that was here before; `live` are the keys of its entities that have values."""

    layouts: dict[int, Layout] = field(default_factory=dict)
    live: dict[Owner, set[str]] = field(default_factory=dict)
    seen_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Decoding:
    """One request being decoded."""

    raw: bytes
    whole: Bytes
    intake: Intake
    now_s: float


class Decoder:
    """Owned by one thread. ValueError at once if protobuf is the slow pure-Python one."""

    def __init__(
        self,
        registry: Registry,
        names: JobNames | None = None,
        max_entities: int = 200_000,
        sizes: RequestSizeLimits | None = None,
    ) -> None:
        require_fast_protobuf()
        self._sizes = sizes or RequestSizeLimits()
        self._max_entities = max_entities
        self._sorter = PointSorter(registry, names)
        self._gate = IntakeLimiter(max_entities)
        self._reader = WireReader()
        self._shared = SharedLayouts()
        self._known: dict[bytes, _KnownResource] = {}
        self._swept_s = 0.0

    @property
    def unknown(self) -> NameCounts:
        """Points of unknown metrics by name."""
        return self._sorter.unknown

    @property
    def remembered(self) -> tuple[int, int]:
        """How many resources and entities are remembered."""
        return len(self._known), len(self._gate)

    def decode(self, raw: bytes, now_s: float) -> Intake:
        """A protobuf request. Raises MalformedError: then nothing of it was taken."""
        self._sweep(now_s)
        work = _Decoding(raw, np.frombuffer(raw, np.uint8), Intake(), now_s)
        count = RequestSizeCount(self._sizes)
        slices = resource_slices(raw, count)
        found = [
            self._layout(work, span) or self._reader.resource(raw, *span, count) for span in slices
        ]
        if not slices or not all(isinstance(each, Layout) for each in found):
            _validate_unknown(raw, slices, found)
        alike: dict[tuple[Columns, bool], list[tuple[int, Entity]]] = {}
        for span, layout in zip(slices, found, strict=True):
            if isinstance(layout, RawResource):
                self._learn(work, span, layout)
                continue
            for part in layout.parts:
                here = span[0], part.entity
                alike.setdefault((part.columns, part.pushed), []).append(here)
            _account(layout, work.intake)
        for (columns, pushed), same in alike.items():
            self._replay(work, columns, same, pushed=pushed)
        return work.intake

    def decode_json(self, raw: bytes, now_s: float) -> Intake:
        """A JSON request. Raises MalformedError: then nothing of it was taken."""
        self._sweep(now_s)
        work = _Decoding(raw, np.frombuffer(raw, np.uint8), Intake(), now_s)
        for resource in read_json(raw, RequestSizeCount(self._sizes)):
            # JSON has no bytes to know a resource by.
            mark = b"json:" + repr(resource.attributes).encode("utf-8", "replace")
            self._take(work, resource, self._know(mark, now_s))
        return work.intake

    def _layout(self, work: _Decoding, span: tuple[int, int]) -> Layout | None:
        """The layout that a resource has, if it is a known one."""
        start, end = span
        known = self._known.get(_head(work.raw, start, end))
        if known is None:
            return None
        known.seen_s = work.now_s
        layout = known.layouts.get(end - start)
        return layout if layout and layout.fits(work.whole[start:end]) else None

    def _replay(
        self,
        work: _Decoding,
        columns: Columns,
        found: Sequence[tuple[int, Entity]],
        *,
        pushed: bool,
    ) -> None:
        """Reads all resources of one layout in one go."""
        starts, entities = zip(*found, strict=True)
        values, times = columns.read(work.whole, starts)
        batch = PointBatch(entities, columns.keys, 0.0, values, pushed)
        self._gate.take(batch, times, work.intake, work.now_s)

    def _learn(self, work: _Decoding, span: tuple[int, int], resource: RawResource) -> None:
        """Takes a resource that was read the slow way, and keeps its layout for the next time."""
        head = _head(work.raw, *span)
        known = self._know(head, work.now_s) if head else _KnownResource()
        result = self._take(work, resource, known)
        if not head:
            return  # a layout is found by it
        if result.ended or resource.unread or not all(p.is_whole for p in resource.points):
            return
        if len(known.layouts) >= _MOST_LAYOUTS:
            known.layouts.clear()
        layout = self._shared.layout(work.whole[slice(*span)], result, resource.points)
        known.layouts[layout.length] = layout

    def _know(self, mark: bytes, now_s: float) -> _KnownResource:
        if mark not in self._known and len(self._known) >= self._max_entities:
            return _KnownResource()
        known = self._known.setdefault(mark, _KnownResource())
        known.seen_s = now_s
        return known

    def _take(self, work: _Decoding, resource: RawResource, known: _KnownResource) -> SortedPoints:
        result = self._sorter.sort(resource)
        for group in result.groups:
            values = np.array([[p.point.value for p in group.points]], np.float64)
            times = np.array([[p.point.time_ns for p in group.points]], np.uint64)
            keys = self._shared.key_set(group)
            batch = PointBatch([group.entity], keys, 0.0, values, group.pushed)
            self._gate.take(batch, times, work.intake, work.now_s)
            if keys.living:
                known.live.setdefault(owner_of(group.entity), set()).update(keys.living)
        _account(result, work.intake)
        if result.ended:
            self._end(result, known, work.intake)
        return result

    def _end(self, result: SortedPoints, known: _KnownResource, intake: Intake) -> None:
        """An entity ends with the last of its series."""
        known.layouts.clear()  # a series that comes back has to be noted as living
        for owner, keys in result.ended.items():
            intake.accepted += len(keys)
            live = known.live.get(owner, set())
            live -= keys
            if not live:
                known.live.pop(owner, None)
                intake.ended.append(owner)
                self._gate.forget(owner)

    def _sweep(self, now_s: float) -> None:
        if abs(now_s - self._swept_s) < _SWEEP_S:
            return
        self._swept_s = now_s
        since_s = now_s - FORGET_S
        self._known = {mark: k for mark, k in self._known.items() if k.seen_s >= since_s and k.live}
        self._gate.sweep(now_s)


def _head(raw: bytes, start: int, end: int) -> bytes:
    """The bytes of the Resource, when it comes first, as all senders have it; else none."""
    if end - start < _SHORTEST or raw[start] != _RESOURCE:
        return b""
    length, at = raw[start + 1], start + 2
    if length >= _MORE:
        high = raw[start + 2]
        if high >= _MORE:
            return b""  # more than 16 KiB
        length, at = length & 0x7F | high << 7, start + 3
    return raw[start : at + length] if at + length <= end else b""


def _account(result: SortedPoints | Layout, intake: Intake) -> None:
    intake.ignored += result.ignored
    if result.rejected.points:
        intake.rejected.update(result.rejected)


def _validate_unknown(
    raw: bytes, slices: Sequence[tuple[int, int]], found: Sequence[Layout | RawResource]
) -> None:
    """MalformedError unless protobuf takes what was not taken before.

    After the counting walk: protobuf builds each message, however many there are. And without the
    resources of known layouts, which nobody counted.
    """
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - when first used
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (  # noqa: PLC0415 - as above
        ExportMetricsServiceRequest,
    )
    from opentelemetry.proto.metrics.v1.metrics_pb2 import ResourceMetrics  # noqa: PLC0415 - as above

    pairs = zip(slices, found, strict=True)
    unknown = [span for span, each in pairs if isinstance(each, RawResource)]
    try:
        if len(unknown) == len(slices):
            ExportMetricsServiceRequest.FromString(raw)
        else:
            for start, end in unknown:
                ResourceMetrics.FromString(raw[start:end])
    except DecodeError as error:
        raise MalformedError("the body is not an ExportMetricsServiceRequest") from error
