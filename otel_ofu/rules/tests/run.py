"""The tests inside rule files: rules in, one `TestResult` a test out; on virtual time.

A simulation takes series and rules to findings with the real store and engine. Samples stand at the
start and every step after it; rounds at multiples of the group's interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Attribute, Entity, Finding, FindingChange, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.errors import escaped
from otel_ofu.rules.annotations import duration_words
from otel_ofu.rules.files.cases import JUDGED, entity_kind
from otel_ofu.rules.files.rule import FilePosition, Rule, RuleGroup, RuleSet, RuleTest
from otel_ofu.rules.lifecycle.engine import Engine
from otel_ofu.rules.lifecycle.evaluation import StoreLastSeen
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.store import Store

START_S = 1_728_000_000.0
"""Midnight, so that rounds of every interval meet the start."""
# Starting value: two months at 30 s; it ends a test whose `eval_time` is a slip.
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


SKU = "h100-sxm5"
NOWHERE = FilePosition()
VERBS: Mapping[FindingChange, tuple[str, str]] = {
    "opened": ("fire", "fired"),
    "resolved": ("resolve", "resolved"),
    "updated": ("be updated", "was updated"),
}


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test; `failures` has a line for everything that was not as expected."""

    rule: str
    test: str
    failures: tuple[str, ...] = ()
    position: FilePosition = NOWHERE

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def lines(self) -> tuple[str, ...]:
        """`Rule: test: expected to fire at 20m, fired at 12m`."""
        head = f"{self.rule}: {self.test}"
        return tuple(escaped(f"{head}: {failure}") for failure in self.failures)


def run_tests(
    rules: RuleSet, registry: Registry, names: Sequence[str] | None = None
) -> Iterator[TestResult]:
    """Runs the tests of all rules, or of those in `names`, in the order of the files."""
    for group in rules.groups:
        for rule in group.rules:
            if names is None or rule.name in names:
                for case in rule.tests:
                    yield run_case(rule, group.interval_s, case, registry)


def run_case(rule: Rule, interval_s: float, case: RuleTest, registry: Registry) -> TestResult:
    """Runs one test; the rule's limit does not count here."""
    alone = replace(rule, limit=0)
    rules = RuleSet((RuleGroup("test", interval_s, (alone,)),))
    names = {JUDGED[rule.each], *(name for name, _ in case.series)}
    simulated = SimulatedSeries(
        case.step_s, {name: entity_named(name) for name in sorted(names)}, case.series
    )
    simulation = RuleSimulation(rules, simulated, registry)
    for _ in simulation.run():
        pass
    fired = _compare(rule, case.fires_at_s, "opened", simulation.emitted)
    failures = (*fired, *_ends(rule, case, simulation))
    return TestResult(rule.name, case.name, failures, case.position)


def _ends(rule: Rule, case: RuleTest, simulation: RuleSimulation) -> Iterator[str]:
    if case.resolves_at_s:
        yield from _compare(rule, case.resolves_at_s, "resolved", simulation.emitted)


def entity_named(name: str) -> Entity:
    """`gpu3`, `job` or `node` of a test: all GPUs are of one job and one node."""
    attributes: dict[str, Attribute] = {"ofu.job.id": "job", "host.name": "node"}
    kind = entity_kind(name)
    if kind == "gpu":
        attributes |= {"hw.id": name, "ofu.gpu.sku": SKU}
    return Entity(kind, name, attributes)


def _compare(
    rule: Rule, expected_s: Mapping[str, float], kind: FindingChange, emitted: Sequence[Finding]
) -> Iterator[str]:
    happened = _times(kind, emitted)
    for name in dict.fromkeys([*expected_s, *happened]):
        wanted_s, times_s = expected_s.get(name), happened.get(name, [])
        if times_s == ([] if wanted_s is None else [wanted_s]):
            continue
        prefix = "" if name == JUDGED[rule.each] else f"{name} "
        yield f"expected {_wanted(prefix, kind, wanted_s)}, {_happened(kind, times_s)}"


def _times(kind: FindingChange, emitted: Sequence[Finding]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {}
    for finding in emitted:
        if finding.kind == kind and finding.entity is not None:
            times.setdefault(finding.entity.id, []).append(finding.at_s - START_S)
    return times


def _wanted(prefix: str, kind: FindingChange, wanted_s: float | None) -> str:
    if wanted_s is None:
        return f"{prefix}to stay quiet" if kind == "opened" else f"{prefix}not to resolve"
    return f"{prefix}to {VERBS[kind][0]} at {duration_words(wanted_s)}"


def _happened(kind: FindingChange, times_s: Sequence[float]) -> str:
    if not times_s:
        return f"never {VERBS[kind][1]}"
    return f"{VERBS[kind][1]} at {' and '.join(duration_words(t) for t in times_s)}"
