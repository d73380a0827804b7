"""Observations to OTLP metrics: one ResourceMetrics per entity, gauges, sums, ends of series.

Enters: what is known of each entity, one call per tick. Leaves: bodies to send, in order.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from otel_ofu.catalog.registry import Registry
from otel_ofu.export.request import EncodedResource, RequestLimits, bundle
from otel_ofu.export.resource import (
    EntityKey,
    EntityState,
    KeyPlans,
    ResourceMetricsBuilder,
    entity_key,
    new_entity_state,
    point_attributes,
    serialised,
    unix_nano,
)
from otel_ofu.model import Attribute, Observation, Window
from otel_ofu.net.fast_protobuf import require_fast_protobuf
from otel_ofu.outbox.batch import Body

_log = logging.getLogger(__name__)

# Prometheus keeps milliseconds. A GPU that changes its job keeps its series there, so the end of
# the old job's points must lie before the first point of the new job's.
_AFTER_LAST_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class EncoderOptions:
    """`start_s` stands in for an unknown start of counting (Unix seconds)."""

    start_s: float
    scope_version: str = ""
    descriptions: bool = True
    limits: RequestLimits = field(default_factory=RequestLimits)


class MetricEncoder:
    """Remembers the last tick alone: what was there and is gone gets one end-of-series point.

    `common` are the resource attributes that all entities share. Not thread-safe: one tick at a
    time. ValueError at once if protobuf is the slow pure-Python one.
    """

    def __init__(
        self, registry: Registry, common: Mapping[str, Attribute], options: EncoderOptions
    ) -> None:
        require_fast_protobuf()
        self._common = dict(common)
        self._options = options
        self._plans = KeyPlans(registry)
        self._states: dict[EntityKey, EntityState] = {}
        self._unknown = 0

    @property
    def unknown_keys(self) -> int:
        """Values left out because the registry does not know their key."""
        return self._unknown

    def encode(
        self, observations: Sequence[Observation], ended: Sequence[Observation] = ()
    ) -> list[Body]:
        """All of one tick. An empty sequence ends every series.

        A value that is not finite is left out. A key that had a value in the last call and has
        none now ends with FLAG_NO_RECORDED_VALUE, unless its gap is `not_ready`: then the next
        value is still to come. It ends whether its entity lives on (a gap, at the end
        of the window) or is gone (a millisecond after its last value, sent first). `ended`: what is
        left of entities that are gone.
        A counter that began while its entity was there goes out with a 0 at its start as well:
        most that read OTLP see an increase only between two points.
        """
        over, groups = self._group(ended), self._group(observations)
        gone = [s for key, s in self._states.items() if key not in groups and key not in over]
        old, self._states = self._states, {}
        left = self._written_groups(over, old, is_over=True)
        resources = chain(self._ended(gone), left, self._written_groups(groups, old))
        return bundle("metrics", resources, self._options.limits)

    def encode_between(self, observations: Sequence[Observation]) -> list[Body]:
        """More values of entities between two ticks; no series ends."""
        resources = (self._added(observation) for observation in observations)
        return bundle("metrics", resources, self._options.limits)

    def _added(self, observation: Observation) -> EncodedResource:
        key = entity_key(observation.entity)
        state = self._states.setdefault(key, new_entity_state(self._common, observation.entity))
        end_ns = unix_nano(observation.window.end_s)
        state.last_end_ns = max(state.last_end_ns, end_ns)
        state.first_end_ns = state.first_end_ns or end_ns
        builder = self._builder(state)
        self._write(builder, state, observation, frozenset(state.live))
        return builder.encoded()

    def _group(self, observations: Sequence[Observation]) -> dict[EntityKey, list[Observation]]:
        groups: dict[EntityKey, list[Observation]] = {}
        for observation in observations:
            groups.setdefault(entity_key(observation.entity), []).append(observation)
        return groups

    def _ended(self, gone: Sequence[EntityState]) -> Iterator[EncodedResource]:
        for state in gone:
            builder = self._builder(state)
            for key, start_ns in state.live.items():
                builder.end(key, (start_ns, state.last_end_ns + _AFTER_LAST_NS))
            if builder.points:
                yield builder.encoded()

    def _written_groups(
        self,
        groups: Mapping[EntityKey, list[Observation]],
        old: Mapping[EntityKey, EntityState],
        *,
        is_over: bool = False,
    ) -> Iterator[EncodedResource]:
        for key, group in groups.items():
            state = old.get(key) or new_entity_state(self._common, group[0].entity)
            self._states[key] = state
            builder = self._written(state, group, is_over=is_over)
            if builder.points:
                yield builder.encoded()

    def _written(
        self, state: EntityState, group: Sequence[Observation], *, is_over: bool
    ) -> ResourceMetricsBuilder:
        builder = self._builder(state)
        self._copy(builder, state, group)
        before, state.live = state.live, {}
        gone_ns = state.last_end_ns + _AFTER_LAST_NS
        state.last_end_ns = max(unix_nano(o.window.end_s) for o in group)
        state.first_end_ns = state.first_end_ns or state.last_end_ns
        for observation in _distinct(group):
            self._write(builder, state, observation, before)
        for key, start_ns in before.items():
            if key in state.live:
                continue
            if any(o.is_to_come(key) for o in group):
                state.live[key] = start_ns
            else:
                end_ns = gone_ns if is_over else max(gone_ns, state.last_end_ns)
                builder.end(key, (start_ns, end_ns))
        return builder

    def _copy(
        self, builder: ResourceMetricsBuilder, state: EntityState, group: Sequence[Observation]
    ) -> None:
        """Series that carry an attribute that is another one now end, and begin anew with it."""
        before, found = state.on_points, point_attributes(group, self._plans.on_points)
        if before == found:
            return
        for key, start_ns in list(state.live.items()):
            names = self._plans.plan(key).metric.points_with
            if any(before.get(name) != found.get(name) for name in names):
                builder.end(key, (start_ns, state.last_end_ns + _AFTER_LAST_NS))
                del state.live[key]
                state.begun.discard(key)
        state.on_points, state.copied = found, serialised(found)

    def _write(
        self,
        builder: ResourceMetricsBuilder,
        state: EntityState,
        observation: Observation,
        before: Collection[str],
    ) -> None:
        """`before`: the series of the last round; one that was reset has a point at its start."""
        end_ns, starts_s = unix_nano(observation.window.end_s), observation.starts_s
        default_ns = min(unix_nano(self._options.start_s), end_ns)
        for key, value in observation.values.items():
            if value - value != 0.0:  # NaN or infinite; twice as fast as math.isfinite
                continue
            start_ns = unix_nano(starts_s[key]) if key in starts_s else default_ns
            try:
                begins = key in starts_s and _begins(state, key, start_ns)
                if begins and key not in before and start_ns < end_ns:
                    builder.add(key, 0.0, (start_ns, start_ns))
                state.live[key] = builder.add(key, value, (start_ns, end_ns))
            except KeyError:
                self._count_unknown(key)

    def _builder(self, state: EntityState) -> ResourceMetricsBuilder:
        return ResourceMetricsBuilder(
            state, self._plans, self._options.scope_version, self._options.descriptions
        )

    def _count_unknown(self, key: str) -> None:
        if not self._unknown:
            _log.error("metric %r is not in the registry and is not exported", key)
        self._unknown += 1


def _begins(state: EntityState, key: str, start_ns: int) -> bool:
    """Whether a counter goes out for the first time and began after its entity was there."""
    if key in state.begun:
        return False
    state.begun.add(key)
    return start_ns >= state.first_end_ns


def _distinct(group: Sequence[Observation]) -> Sequence[Observation]:
    """The observations of one entity; of two values for the same instant the later one counts."""
    if len(group) == 1:
        return group
    by_window: dict[Window, Observation] = {}
    for o in group:
        known = by_window.get(o.window)
        by_window[o.window] = _merged(known, o) if known else o
    return list(by_window.values())


def _merged(first: Observation, second: Observation) -> Observation:
    return replace(
        second,
        values={**first.values, **second.values},
        starts_s={**first.starts_s, **second.starts_s},
        point_attributes={**first.point_attributes, **second.point_attributes},
    )
