"""The rules at work: recent history in, findings out, on a schedule and with hot reload.

Enters: observations, instants. Leaves: changes of findings to `tell`, and `ofu.finding.active`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.config import Config
from otel_ofu.diagnose import (
    Baselines,
    CauseBook,
    Diagnoser,
    Reporter,
    load_causes,
    looked_at,
)
from otel_ofu.export.agent import AgentMetrics
from otel_ofu.files.shipped import shipped
from otel_ofu.model import Diagnosis, Observation
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.rules.files.load import FileWatch, load_rules
from otel_ofu.rules.files.rule import RuleSet
from otel_ofu.rules.lifecycle.change import Change
from otel_ofu.rules.lifecycle.engine import Engine
from otel_ofu.rules.lifecycle.judging import VerdictSource
from otel_ofu.rules.lifecycle.memory import FindingMemory
from otel_ofu.rules.lifecycle.silence import Ears, StoreEars
from otel_ofu.rules.needs import retention_for
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.promql.engine import PromqlEngine
from otel_ofu.rules.promql.last_seen import PromqlEars
from otel_ofu.rules.promql.server import QueryClient
from otel_ofu.store import Retention, StateInUse, StateUnusable, Store

log = logging.getLogger(__name__)

Tell = Callable[[Diagnosis, Change | None], None]
"""Told a diagnosis, and the change of the finding that it speaks of."""


def rule_paths(config: Config) -> list[Path]:
    """The rule files of the config; without any, those that come with the program."""
    return [Path(path) for path in config.rules.paths] or [shipped("rules")]


def rules_of(config: Config, causes: CauseBook | None = None) -> RuleSet:
    """Raises ConfigError with all that is wrong in all files."""
    registry = load_registry()
    causes = causes or causes_of(config, registry)
    return load_rules(rule_paths(config), registry, causes.names)


def causes_of(config: Config, registry: Registry) -> CauseBook:
    """The causes of the config's file, or those that come with the program. Raises ConfigError."""
    return load_causes(config.rules.causes_file or shipped("rules") / "causes.yaml", registry)


def base_interval_s(rules: RuleSet) -> float:
    """The interval that every group's is a multiple of, in whole seconds where there are such."""
    intervals = [max(1, round(group.interval_s)) for group in rules.groups]
    return float(math.gcd(*intervals)) if intervals else 30.0


@dataclass(frozen=True, slots=True)
class Judged:
    """What the rules stand on."""

    config: Config
    clock: Clock
    state_dir: Path | None
    meter: AgentMetrics
    tell: Tell


class RulesAtWork:
    """Writes observations into the history and judges. `tick` and `look` belong to one thread."""

    def __init__(self, ground: Judged) -> None:
        self._ground = ground
        self._registry = load_registry()
        self._causes = causes_of(ground.config, self._registry)
        rules = rules_of(ground.config, self._causes)
        self._watch = FileWatch(rule_paths(ground.config))
        self._step_s = float(ground.config.receivers.gpu.interval)
        self._entities: dict[str, set[str]] = {}
        self.store = self._open_store(rules)
        ground.meter.watch("store", lambda: self.store.counts)
        source, ears = self._source()
        self._baselines = Baselines(self._path("baselines.sqlite"), self.store)
        diagnoser = Diagnoser(self._causes, NumpyEngine(self.store), self.store, self._registry)
        self._reporter = Reporter(diagnoser.diagnose, self._tell)
        self._changes: dict[str, Change] = {}
        self._engine = Engine(
            rules,
            source,
            self._take,
            memory=FindingMemory(self._path("findings.sqlite")),
            ears=ears,
            meter=ground.meter,
            clock=ground.clock,
        )

    @property
    def interval_s(self) -> float:
        return base_interval_s(self._engine.rules)

    @property
    def rules(self) -> RuleSet:
        return self._engine.rules

    def write(self, observations: Sequence[Observation]) -> None:
        """Takes what was measured; may be called from another thread than `tick`."""
        self.store.write(observations)
        self._end_old_owners(observations)

    def _end_old_owners(self, observations: Sequence[Observation]) -> None:
        """A GPU that changed its job is another entity: the one of the old job ends."""
        now: dict[str, set[str]] = {}
        for observation in observations:
            if observation.entity.kind == "gpu":
                gpu = str(observation.entity.attributes.get("hw.id", observation.entity.id))
                now.setdefault(gpu, set()).add(observation.entity.id)
        for gpu, ids in self._entities.items():
            for id_ in ids - now.get(gpu, ids):
                self.store.end("gpu", id_)
        self._entities |= now

    def tick(self, now_s: float) -> None:
        """Judges what is due at the scheduled instant, and tells what came of it."""
        self.store.write(self._baselines.tick(now_s))
        self._engine.tick(now_s)
        self._reporter.flush()
        self._changes.clear()

    def fingerprints(self) -> set[str]:
        """Those of the findings that are open."""
        return {change.fingerprint for change in self._engine.active()}

    def _take(self, change: Change) -> None:
        self._changes[change.fingerprint] = change
        self._reporter.take(change)

    def _tell(self, diagnosis: Diagnosis) -> None:
        self._ground.tell(diagnosis, self._changes.get(diagnosis.fingerprint))

    def _path(self, name: str) -> Path | None:
        return self._ground.state_dir / name if self._ground.state_dir else None

    def active(self, now_s: float) -> list[Observation]:
        """`ofu.finding.active` of every entity with an open finding."""
        return self._engine.observations(now_s)

    def look(self) -> bool:
        """Reloads when a rule file changed since the last look; whether it did."""
        return self._watch.changed() and self.reload()

    def reload(self) -> bool:
        """All or nothing: a mistake leaves the old rules at work and is told with its places."""
        try:
            rules = rules_of(self._ground.config, self._causes)
        except ConfigError as error:
            words = f"rules not reloaded, the old ones stay:\n{error.with_carets()}"
            log.error(words)  # noqa: TRY400 - no traceback for a user's mistake
            self._ground.meter.reloaded(good=False)
            return False
        self.store.retain(self._retention(rules))
        self._engine.reload(rules)
        self._ground.meter.reloaded(good=True)
        log.info("rules reloaded: %d", len(rules))
        return True

    def close(self) -> None:
        self._engine.close()
        self._baselines.close(self._ground.clock.now_s())
        try:
            self.store.close()
        except OSError as error:
            log.warning("history not saved: %s", error)

    def _retention(self, rules: RuleSet) -> Retention:
        expressions = [*rules.expressions(), *looked_at(self._causes, self._registry)]
        return retention_for(expressions, self._step_s)

    def _open_store(self, rules: RuleSet) -> Store:
        folder = self._path("store")
        retention = self._retention(rules)
        clock = self._ground.clock
        try:
            return Store(
                self._registry, retention, step_s=self._step_s, state_dir=folder, clock=clock
            )
        except StateInUse as error:
            raise ConfigError([Problem("state_dir", 0, 0, str(error))]) from error
        except StateUnusable as error:
            log.warning("%s; history does not survive a restart", error)
            return Store(self._registry, retention, step_s=self._step_s, clock=clock)

    def _source(self) -> tuple[VerdictSource, Ears]:
        server = self._ground.config.rules.engine.prometheus
        if not server.url:
            return NumpyEngine(self.store), StoreEars(self.store)
        api = QueryClient(server)
        engine = PromqlEngine(api, self._registry, step_s=self._step_s)
        return (
            engine,
            PromqlEars(api, self._registry, clock=self._ground.clock),
        )
