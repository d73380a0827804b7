"""A story lived through on virtual time, with the parts that people run.

Enters: a `Story`. Leaves: what was told of it. Physical models of the demo -> derive -> jobs ->
store -> shipped rules -> shipped causes -> incidents. Flags and the node's load stand beside the
counters as a scan of processes and a reader of /proc would give them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.skus import load_skus
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.derive.jobs import JobAggregator
from otel_ofu.diagnose import (
    Baselines,
    CauseCatalogue,
    Diagnoser,
    Incidents,
    StoreNodes,
    evaluated_expressions,
    load_causes,
)
from otel_ofu.files.installed import shipped
from otel_ofu.model import Entity, Finding, Gap, GapReason, Observation, Reading, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.files import RuleSet, load_rules
from otel_ofu.rules.lifecycle.engine import Engine
from otel_ofu.rules.lifecycle.evaluation import StoreLastSeen
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.sources.demo import DemoSource
from otel_ofu.store import Store
from tests.scenarios.story import Story

START_S = 1_728_000_000.0
RULES_EVERY_S = 30.0
SCAN_EVERY_S = 60.0
NO_VALUE = Gap(GapReason.NOT_SUPPORTED, "this exporter does not have it")
REGISTRY = load_registry()


@cache
def causes() -> CauseCatalogue:
    return load_causes(shipped("rules") / "causes.yaml", REGISTRY)


@cache
def rules() -> RuleSet:
    return load_rules([shipped("rules")], REGISTRY, causes().names)


@dataclass
class Lived:
    """What became of a story. Times are seconds from its start."""

    story: Story
    told: list[Finding] = field(default_factory=list)
    gpu_days: float = 0.0

    def opened(self) -> Iterator[tuple[float, Finding]]:
        """What was told as new, with its time."""
        return ((d.at_s - START_S, d) for d in self.told if d.kind == "opened")

    def pages(self) -> list[tuple[float, Finding]]:
        """What wakes people: warnings and above."""
        return [(at_s, d) for at_s, d in self.opened() if d.severity != "info" and not d.shadow]


class World:
    """One node or job of nodes."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._clock = VirtualClock(START_S)
        self._source = DemoSource(
            story.scenario,
            seed=story.seed,
            gpus=story.gpus,
            start_s=START_S,
            interval_s=story.interval_s,
        )
        expressions = [*rules().expressions(), *evaluated_expressions(causes(), REGISTRY)]
        step_s = story.interval_s
        self._store = Store(
            REGISTRY,
            retention_for(expressions, step_s, everything=True),
            step_s=step_s,
            clock=self._clock,
        )
        self._deriver = Deriver(DeriverSettings(skus=load_skus()))
        self._jobs = JobAggregator(scope="fleet" if story.gpus > 8 else "node")
        self._baselines = Baselines(None, self._store)
        self._entities: dict[str, Entity] = {}
        self._lost = np.random.default_rng(story.seed + 1)
        self.lived = Lived(story)
        engine = NumpyEngine(self._store)
        diagnoser = Diagnoser(causes(), engine, self._store, REGISTRY)
        self._incidents = Incidents(StoreNodes(self._store))
        self._engine = Engine(
            rules(),
            engine,
            self._take,
            diagnose=diagnoser.diagnose,
            last_seen=StoreLastSeen(self._store),
            clock=self._clock,
        )

    def live(self) -> Lived:
        """The whole story."""
        story = self._story
        for number in range(1, round(story.length_s / story.interval_s) + 1):
            after_s = number * story.interval_s
            self._clock.set(START_S + after_s)
            self._sample(START_S + after_s)
            if after_s % RULES_EVERY_S == 0:
                self._engine.tick(START_S + after_s)
        self._engine.close()
        self.lived.gpu_days = story.gpus * story.length_s / 86_400
        return self.lived

    def _take(self, findings: Sequence[Finding]) -> None:
        self.lived.told += self._incidents.report(findings)

    def _sample(self, now_s: float) -> None:
        readings = [self._seen(reading) for reading in self._source.read(now_s)]
        kept = [r for r in readings if self._lost.random() >= self._story.gaps]
        gpus = [self._deriver.derive(reading) for reading in kept]
        self._entities |= {one.entity.id: one.entity for one in gpus}
        seen = [*gpus, *self._jobs.aggregate(gpus, reports=self._reports(now_s))]
        seen += self._said(seen, now_s)
        seen += self._node(gpus, now_s)
        if now_s % SCAN_EVERY_S == 0:
            seen += self._flags(now_s)
        self._store.write(seen)
        self._store.write(self._baselines.tick(now_s))

    def _seen(self, reading: Reading) -> Reading:
        hide = self._story.hide
        if not hide:
            return reading
        gone = {k for k in reading.values if k in hide or k.partition(":")[0] in hide}
        values = {k: v for k, v in reading.values.items() if k not in gone}
        return replace(reading, values=values, gaps=dict.fromkeys(gone, NO_VALUE))

    def _reports(self, now_s: float) -> Mapping[str, Mapping[str, float]]:
        if not self._story.reports:
            return {}
        report = self._source.job_reports(now_s)[-1]
        return {"4242": {"model_flop_rate": report.flop_per_s}} if report.step_s else {}

    def _said(self, seen: Sequence[Observation], now_s: float) -> list[Observation]:
        """The step time that the job logs."""
        report = self._source.job_reports(now_s)[-1]
        if not self._story.reports or report.step_s is None:
            return []
        return [
            Observation(one.entity, one.window, {"step_time": report.step_s})
            for one in seen
            if one.entity.kind == "job"
        ]

    def _node(self, gpus: Sequence[Observation], now_s: float) -> list[Observation]:
        if not self._story.host:
            return []
        window = Window(now_s - self._story.interval_s, now_s)
        values = dict(self._source.host_values(now_s))
        hosts = dict.fromkeys(str(one.entity.attributes["host.name"]) for one in gpus)
        return [
            Observation(Entity("node", host, {"host.name": host}), window, values) for host in hosts
        ]

    def _flags(self, now_s: float) -> list[Observation]:
        """What a scan of the processes gives: 1 for a flag that is there, 0 for the others."""
        if not self._story.flags:
            return []
        facts = self._source.facts_at(now_s)
        found = {name for fact in facts for name in fact.flags}
        values = {f"flag:{name}": float(name in found) for name in sorted(causes().flags)}
        window = Window(now_s, now_s)
        return [Observation(one, window, values) for one in self._entities.values()]


def live(story: Story) -> Lived:
    """Lives through a story."""
    return World(story).live()
