"""Rules on simulated series and virtual time: findings out; real store and engine.

Samples stand at the start and every step after it; rounds at multiples of the group's interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Entity, Finding, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.files.rule import RuleSet
from otel_ofu.rules.lifecycle.engine import Engine
from otel_ofu.rules.lifecycle.silence import StoreLastSeen
from otel_ofu.rules.needs import retention_for
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.store import Store

START_S = 1_728_000_000.0
"""Midnight, so that rounds of every interval meet the start."""
# Starting value: two months at 30 s; it ends a test name_part `eval_time` is a slip.
MAX_ROUNDS = 200_000

Series = Mapping[tuple[str, str], Sequence[float]]


@dataclass(frozen=True, slots=True)
class SimulatedSeries:
    """Samples by (entity name, metric), `step_s` apart; NaN is a missing sample."""

    step_s: float
    entities: Mapping[str, Entity]
    series: Series

    @property
    def length_s(self) -> float:
        """From the first sample to the last."""
        longest = max((len(samples) for samples in self.series.values()), default=0)
        return max(0, longest - 1) * self.step_s


class RuleSimulation:
    """One run of simulated series under some rules."""

    def __init__(self, rules: RuleSet, simulated: SimulatedSeries, registry: Registry) -> None:
        self._simulated = simulated
        self._clock = VirtualClock(START_S)
        retention = retention_for(rules.expressions(), simulated.step_s)
        self._store = Store(registry, retention, step_s=simulated.step_s, clock=self._clock)
        self.emitted: list[Finding] = []
        self.engine = Engine(
            rules,
            NumpyEngine(self._store),
            self.emitted.extend,
            last_seen=StoreLastSeen(self._store),
            clock=self._clock,
        )
        self._every_s = min((group.interval_s for group in rules.groups), default=simulated.step_s)

    def run(self) -> Iterator[float]:
        """Writes the series and judges; gives the seconds since its start after every round."""
        written, rounds = 0, math.floor(self._simulated.length_s / self._every_s + 1e-9) + 1
        for number in range(min(rounds, MAX_ROUNDS)):
            after_s = number * self._every_s
            while written * self._simulated.step_s <= after_s + 1e-9:
                self._write(written)
                written += 1
            self._clock.set(START_S + after_s)
            self.engine.tick(START_S + after_s)
            yield after_s
        self.engine.close()

    def _write(self, index: int) -> None:
        end_s = START_S + index * self._simulated.step_s
        self._clock.set(end_s)
        window = Window(end_s - self._simulated.step_s, end_s)
        values = self._values(index)
        self._store.write(
            [
                Observation(entity, window, values.get(name, {}))
                for name, entity in self._simulated.entities.items()
                if name in values or index == 0  # from the start it is known that they are there
            ]
        )

    def _values(self, index: int) -> dict[str, dict[str, float]]:
        """Entity name -> metric -> value, where there is one."""
        values: dict[str, dict[str, float]] = {}
        for (name, metric), samples in self._simulated.series.items():
            if index < len(samples) and not math.isnan(samples[index]):
                values.setdefault(name, {})[metric] = samples[index]
        return values
