"""The rules at work: recent history in, findings out, on a schedule and with hot reload.

Enters: observations, instants. Leaves: findings to `report`, and `ofu.finding.active`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.app.prepare import LoadedRules, configured_rules, rule_paths
from otel_ofu.catalog.registry import load_registry
from otel_ofu.config import Config
from otel_ofu.diagnose import (
    Baselines,
    Diagnoser,
    Incidents,
    StoreNodes,
    evaluated_expressions,
)
from otel_ofu.export.agent import AgentMetrics
from otel_ofu.model import Finding, Observation
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.rules.files.load import FileWatch
from otel_ofu.rules.files.rule import RuleSet
from otel_ofu.rules.lifecycle.engine import Engine
from otel_ofu.rules.lifecycle.evaluation import LastSeen, StoreLastSeen, VerdictSource
from otel_ofu.rules.lifecycle.storage import FindingStorage
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.rules.promql.engine import PromqlEngine, PromqlLastSeen
from otel_ofu.rules.promql.server import QueryClient
from otel_ofu.store import Retention, StateInUseError, StateUnusableError, Store

log = logging.getLogger(__name__)

Report = Callable[[Finding], None]
"""Takes the findings of incidents that opened, changed or ended."""


def base_interval_s(rules: RuleSet) -> float:
    """The interval that every group's is a multiple of, in whole seconds where there are such."""
    intervals = [max(1, round(group.interval_s)) for group in rules.groups]
    return float(math.gcd(*intervals)) if intervals else 30.0


@dataclass(frozen=True, slots=True)
class RulesContext:
    """What the rules of an agent need."""

    config: Config
    loaded: LoadedRules
    clock: Clock
    state_dir: Path | None
    meter: AgentMetrics


class AgentRules:
    """Writes observations into the history and judges. `tick` and `poll` belong to one thread."""

    def __init__(self, context: RulesContext, report: Report) -> None:
        self._context = context
        self._report = report
        self._registry = load_registry()
        rules, self._causes = context.loaded.rules, context.loaded.causes
        self._watch = FileWatch(rule_paths(context.config))
        self._step_s = float(context.config.receivers.gpu.interval)
        self._entities: dict[str, set[str]] = {}
        self.store = self._open_store(rules)
        context.meter.watch("store", lambda: self.store.counts)
        source, last_seen = self._source()
        self._baselines = Baselines(self._path("baselines.sqlite"), self.store)
        diagnoser = Diagnoser(self._causes, NumpyEngine(self.store), self.store, self._registry)
        self._incidents = Incidents(StoreNodes(self.store))
        self._adopted = False
        self._engine = Engine(
            rules,
            source,
            self._take,
            diagnose=diagnoser.diagnose,
            storage=FindingStorage(self._path("findings.sqlite")),
            last_seen=last_seen,
            meter=context.meter,
            clock=context.clock,
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
        """Judges what is due at the scheduled instant, and reports what came of it."""
        self.store.write(self._baselines.tick(now_s))
        self._engine.tick(now_s)

    def fingerprints(self) -> set[str]:
        """Those of the findings that are open."""
        return {finding.fingerprint for finding in self._engine.active()}

    def _take(self, findings: Sequence[Finding]) -> None:
        if not self._adopted:
            self._adopted = True
            new = {finding.fingerprint for finding in findings}
            self._incidents.adopt(f for f in self._engine.active() if f.fingerprint not in new)
        for finding in self._incidents.report(findings):
            self._report(finding)

    def _path(self, name: str) -> Path | None:
        return self._context.state_dir / name if self._context.state_dir else None

    def active(self, now_s: float) -> list[Observation]:
        """`ofu.finding.active` of every entity with an open finding."""
        return self._engine.observations(now_s)

    def poll(self) -> bool:
        """Reloads when a rule file changed since the last poll; whether it did."""
        return self._watch.changed() and self.reload()

    def reload(self) -> bool:
        """All or nothing: after a mistake, which is logged with its line, the old rules stay."""
        try:
            rules = configured_rules(self._context.config, self._causes)
        except ConfigError as error:
            message = f"rules not reloaded, the old ones stay:\n{error.with_carets()}"
            log.error(message)  # noqa: TRY400 - no traceback for a user's mistake
            self._context.meter.reloaded(good=False)
            return False
        self.store.retain(self._retention(rules))
        self._engine.reload(rules)
        self._context.meter.reloaded(good=True)
        log.info("rules reloaded: %d", len(rules))
        return True

    def close(self) -> None:
        self._engine.close()
        self._baselines.close(self._context.clock.now_s())
        try:
            self.store.close()
        except OSError as error:
            log.warning("history not saved: %s", error)

    def _retention(self, rules: RuleSet) -> Retention:
        expressions = [*rules.expressions(), *evaluated_expressions(self._causes, self._registry)]
        return retention_for(expressions, self._step_s)

    def _open_store(self, rules: RuleSet) -> Store:
        folder = self._path("store")
        retention = self._retention(rules)
        clock = self._context.clock
        try:
            return Store(
                self._registry, retention, step_s=self._step_s, state_dir=folder, clock=clock
            )
        except StateInUseError as error:
            raise ConfigError([Problem("state_dir", 0, 0, str(error))]) from error
        except StateUnusableError as error:
            log.warning("%s; history does not survive a restart", error)
            return Store(self._registry, retention, step_s=self._step_s, clock=clock)

    def _source(self) -> tuple[VerdictSource, LastSeen]:
        server = self._context.config.rules.engine.prometheus
        if not server.url:
            return NumpyEngine(self.store), StoreLastSeen(self.store)
        api = QueryClient(server)
        engine = PromqlEngine(api, self._registry, step_s=self._step_s)
        return (
            engine,
            PromqlLastSeen(api, self._registry, clock=self._context.clock),
        )
