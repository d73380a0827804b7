"""The agent's own metrics, by the OpenTelemetry SDK: its attributes are few and do not churn.

Enters: what the sampler and the exporters report. Leaves: a body per collection, for the outbox.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_ofu.catalog.registry import Registry
from otel_ofu.files.sqlite import why
from otel_ofu.model import Attribute
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.queues import QueueStats

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Histogram, Observation

_log = logging.getLogger(__name__)

# Seconds; a read of one GPU takes 1 ms, a hung driver minutes.
_DURATION_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


_Row = tuple[Any, ...]
"""What a callback observes: a number, and the values of the metric's labels."""
_CLOCK_TIME, _CLOCK_INTERVAL = "clock_sampler_time", "clock_sampler_interval"


class AgentMetrics:
    """Counts and durations of one agent. Thread-safe.

    `common` are the resource attributes that all telemetry shares; `service.instance.id` is
    `agent_id`. Nothing is registered globally nor at exit.
    """

    def __init__(self, registry: Registry, common: Mapping[str, Attribute], agent_id: str) -> None:
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - 100 ms, at first use
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: PLC0415 - as above
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above

        self._registry = registry
        self._reader = InMemoryMetricReader()
        resource = Resource({**common, "service.instance.id": agent_id})
        self._provider = MeterProvider([self._reader], resource, shutdown_on_exit=False)
        self._meter = self._provider.get_meter("otel_ofu")
        self._queues: Mapping[str, QueueStats] = {}
        self._answers: dict[str, Mapping[str, bool]] = {}
        self._costs: dict[str, Mapping[str, float]] = {}
        self._parts: dict[str, Callable[[], Mapping[str, int]]] = {}
        self._create()

    def sampled(self, source: str, seconds: float) -> None:
        """One round of reading took so long."""
        self._duration.record(seconds, self._attributes("sampler_duration", source))

    def missed(self, source: str, reason: str) -> None:
        """One round gave nothing."""
        self._missed.add(1, self._attributes("sampler_missed", source, reason))

    def troubled(self, source: str, target: str, reason: str) -> None:
        """A part of a source failed in one round."""
        self._troubles.add(1, self._attributes("source_troubles", source, target, reason))

    def answered(self, source: str, targets: Mapping[str, bool]) -> None:
        """Which targets of a source answered its last read."""
        self._answers[source] = dict(targets)

    def cost(self, source: str, costs: Mapping[str, float]) -> None:
        """What a source costs beside reading, by registry key."""
        self._costs[source] = dict(costs)

    def exported(self, exporter: str, outcome: str, points: int) -> None:
        """Points were sent, rejected, dropped, or failed and will be tried again."""
        self._points.add(points, self._attributes("export_points", exporter, outcome))

    def judged(self, seconds: float, late_s: float) -> None:
        """One round of rules took so long and began so late."""
        self._rules_duration.record(seconds)
        self._rules_lateness.record(late_s)
        self._rounds.add(1, self._attributes("rules_rounds", "judged"))

    def skipped(self, group: str, rounds: int) -> None:  # noqa: ARG002 - groups are many
        """Rounds of rules that nobody ran."""
        self._rounds.add(rounds, self._attributes("rules_rounds", "skipped"))

    def failed(self, rule: str, error: str) -> None:  # noqa: ARG002 - it is logged
        """A rule could not be judged."""
        self._rounds.add(1, self._attributes("rules_rounds", "failed"))

    def unsaved(self, error: str) -> None:  # noqa: ARG002 - it is logged
        """Findings could not be written down."""
        self._rounds.add(1, self._attributes("rules_rounds", "unsaved"))

    def reloaded(self, *, good: bool) -> None:
        """Rule files were read again."""
        outcome = "loaded" if good else "failed"
        self._reloads.add(1, self._attributes("rules_reloads", outcome))

    def watch(self, component: str, read: Callable[[], Mapping[str, int]]) -> None:
        """Totals that a part of the agent keeps itself, by outcome; asked at each collection."""
        self._parts[component] = read

    def collect(self, queues: Mapping[str, QueueStats]) -> Body | None:
        """All of them now, with the queues by exporter; None while there are none."""
        from opentelemetry.exporter.otlp.proto.common.metrics_encoder import (  # noqa: PLC0415 - as above
            encode_metrics,
        )

        from otel_ofu.export.request import pack  # noqa: PLC0415 - protobuf, at first use

        self._queues = queues
        found = self._reader.get_metrics_data()
        if found is None:
            return None
        return pack(encode_metrics(found))

    def close(self) -> None:
        self._provider.shutdown()

    def _create(self) -> None:
        meter = self._meter
        self._duration = self._histogram("sampler_duration")
        self._rules_duration = self._histogram("rules_duration")
        self._rules_lateness = self._histogram("rules_lateness")
        self._rounds = meter.create_counter(*self._described("rules_rounds"))
        self._reloads = meter.create_counter(*self._described("rules_reloads"))
        self._missed = meter.create_counter(*self._described("sampler_missed"))
        self._troubles = meter.create_counter(*self._described("source_troubles"))
        self._points = meter.create_counter(*self._described("export_points"))
        for create, key, read in (
            (meter.create_observable_gauge, "source_up", self._up),
            (meter.create_observable_counter, _CLOCK_TIME, partial(self._cost, _CLOCK_TIME)),
            (meter.create_observable_gauge, _CLOCK_INTERVAL, partial(self._cost, _CLOCK_INTERVAL)),
            (meter.create_observable_counter, "agent_count", self._counted),
            (meter.create_observable_up_down_counter, "export_queue_size", self._sizes),
            (meter.create_observable_up_down_counter, "export_queue_capacity", self._capacities),
        ):
            name, unit, brief = self._described(key)
            create(name, [partial(self._observed, key, read)], unit, brief)

    def _histogram(self, key: str) -> Histogram:
        return self._meter.create_histogram(
            *self._described(key), explicit_bucket_boundaries_advisory=_DURATION_BOUNDS_S
        )

    def _described(self, key: str) -> tuple[str, str, str]:
        metric = self._registry.metric(key)
        return metric.name, metric.unit, metric.brief

    def _attributes(self, key: str, *values: str) -> dict[str, str]:
        return dict(zip(self._registry.metric(key).labels, values, strict=True))

    def _observed(
        self, key: str, read: Callable[[], Iterable[_Row]], _options: CallbackOptions
    ) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation  # noqa: PLC0415 - as above

        return [Observation(value, self._attributes(key, *labels)) for value, *labels in read()]

    def _counted(self) -> Iterator[_Row]:
        for component, read in self._parts.items():
            for outcome, count in read().items():
                yield count, component, outcome

    def _up(self) -> Iterator[_Row]:
        for source, targets in tuple(self._answers.items()):
            for target, ok in targets.items():
                yield int(ok), source, target

    def _cost(self, key: str) -> Iterator[_Row]:
        for source, costs in tuple(self._costs.items()):
            if key in costs:
                yield costs[key], source

    def _sizes(self) -> Iterator[_Row]:
        return ((queue.size_bytes, name) for name, queue in self._queues.items())

    def _capacities(self) -> Iterator[_Row]:
        return ((queue.capacity_bytes, name) for name, queue in self._queues.items())


def agent_id(state_dir: Path | None, host: str) -> str:
    """The agent's own id: kept in `state_dir/agent-id`, or made of the host's name without one.

    A file that holds no UUID is written anew. One that can be neither read nor written is logged,
    and the id is that of the host.
    """
    of_host = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"otel-ofu.{host}"))
    if state_dir is None:
        return of_host
    path = state_dir / "agent-id"
    try:
        return _kept_id(path)
    except OSError as error:
        _log.warning("%s: %s; this agent's id is made of the host's name", path, why(path, error))
        return of_host


def _kept_id(path: Path) -> str:
    try:
        return str(uuid.UUID(path.read_text("ascii").strip()))
    except (FileNotFoundError, ValueError):
        made = str(uuid.uuid4())
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    try:
        fresh.write_text(made + "\n", "ascii")
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    return made
