"""Rules on a schedule: verdicts in, findings out.

Enters: instants, and through the source of verdicts what was measured. Leaves: the findings that
opened, changed or ended in a round, to `emit`. Neither `diagnose` nor `emit` may raise. The engine
belongs to one thread; `reload` may be called from any and counts from the next round.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from otel_ofu.model import Entity, Finding, Observation, Window
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.rules.files.rule import SEVERITY, RuleGroup, RuleSet
from otel_ofu.rules.lifecycle.evaluation import Instant, LastSeen, RuleEvaluator, VerdictSource
from otel_ofu.rules.lifecycle.findings import RuleFindings, removed
from otel_ofu.rules.lifecycle.storage import FindingStorage

log = logging.getLogger(__name__)

Emit = Callable[[Sequence[Finding]], None]
Diagnose = Callable[[Finding], Finding]
ACTIVE = "finding_active"
MAX_SKIPPED = 1_000_000
"""Rounds; more are a clock that was set, not rounds that were missed. Starting value."""


class EngineMeter(Protocol):
    """Where the engine counts its own work."""

    def judged(self, seconds: float, late_s: float) -> None:
        """A round took so long, diagnosis included, and began so much after its instant."""

    def skipped(self, group: str, rounds: int) -> None:
        """Rounds of a group that were missed."""

    def failed(self, rule: str, error: str) -> None:
        """A rule could not be judged; `error` is the type of the fault."""

    def unsaved(self, error: str) -> None:
        """Findings could not be written; they are tried again with the next round."""


class NoEngineMeter:
    """For replay and tests: counts nothing."""

    def judged(self, seconds: float, late_s: float) -> None: ...

    def skipped(self, group: str, rounds: int) -> None: ...

    def failed(self, rule: str, error: str) -> None: ...

    def unsaved(self, error: str) -> None: ...


class Engine:
    """`delay_s`: windows end so long before the round, for data that is still on its way.

    `diagnose` adds causes to a finding before it is emitted, and the engine keeps them. Findings of
    a rule that is gone end with the first round.
    """

    def __init__(  # noqa: PLR0913 - the seams of the engine, by name
        self,
        rules: RuleSet,
        source: VerdictSource,
        emit: Emit,
        *,
        diagnose: Diagnose | None = None,
        storage: FindingStorage | None = None,
        last_seen: LastSeen | None = None,
        meter: EngineMeter | None = None,
        clock: Clock | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self._evaluator = RuleEvaluator(source, last_seen)
        self._emit = emit
        self._diagnose = diagnose
        self._storage = storage or FindingStorage(None)
        self._meter = meter or NoEngineMeter()
        self._clock = clock or SystemClock()
        self._delay_s = delay_s
        self._lock = threading.Lock()
        self._rules = RuleSet()
        self._next: RuleSet | None = rules
        self._findings: dict[str, RuleFindings] = {}
        self._rounds: dict[tuple[str, float], int] = {}
        self._running_s: float | None = None
        self._stored = self._storage.load()
        self._behind = False
        self._active: Sequence[Finding] = ()

    @property
    def rules(self) -> RuleSet:
        """The rules that are judged; after `reload` the new ones."""
        with self._lock:
            return self._rules if self._next is None else self._next

    def reload(self, rules: RuleSet) -> None:
        """Other rules from the next round on. Findings of the same rule stay."""
        with self._lock:
            self._next = rules

    def tick(self, now_s: float) -> None:
        """Judges the groups that are due at `now_s`, the scheduled instant in Unix seconds."""
        started_s, late_s = self._clock.monotonic_s(), self._clock.now_s() - now_s
        if self._running_s is None or now_s < self._running_s:
            self._running_s = now_s
        self._take_over(now_s)
        due = [group for group in self._rules.groups if self._is_due(group, now_s)]
        if not due:
            return
        self._report(self._round(due, Instant(now_s - self._delay_s, now_s, self._running_s)))
        self._save([rule.name for group in due for rule in group.rules])
        self._meter.judged(self._clock.monotonic_s() - started_s, max(0.0, late_s))

    def active(self) -> Sequence[Finding]:
        """The findings that are open; may be called from any thread."""
        return self._active

    def observations(self, now_s: float) -> list[Observation]:
        """1 for every open finding, as `ofu.finding.active` of its entity; without summaries."""
        window = Window(now_s, now_s)
        values: dict[tuple[str, str], dict[str, float]] = {}
        entities: dict[tuple[str, str], Entity] = {}
        for finding in self.active():
            if finding.entity is not None:
                key = finding.each, finding.entity.id
                entities[key] = finding.entity
                values.setdefault(key, {})[_active_key(finding)] = 1.0
        return [Observation(entities[key], window, found) for key, found in values.items()]

    def close(self) -> None:
        self._storage.close()

    def _take_over(self, now_s: float) -> None:
        with self._lock:
            rules, self._next = self._next, None
        if rules is None:
            return
        stored = self._stored or {f.row.identity: f.stored() for f in self._findings.values()}
        self._stored = {}
        ends = list(removed(stored, rules, now_s))
        self._findings = {r.name: RuleFindings(r, stored.get(r.identity)) for r in rules}
        self._rules = rules
        self._report(ends)
        self._behind = True
        self._save([])

    def _report(self, findings: Sequence[Finding]) -> None:
        """Emits what happened, with its causes."""
        if self._diagnose is not None:
            findings = [self._diagnose(finding) for finding in findings]
            for finding in findings:
                if finding.rule in self._findings and finding.kind != "resolved":
                    self._findings[finding.rule].diagnosed(finding)
        self._active = tuple(f for of_rule in self._findings.values() for f in of_rule.active())
        if findings:
            self._emit(findings)

    def _is_due(self, group: RuleGroup, now_s: float) -> bool:
        """Once for every multiple of the interval; after the clock was set back again."""
        number = math.floor(now_s / group.interval_s + 1e-9)
        last = self._rounds.get((group.name, group.interval_s))
        self._rounds[group.name, group.interval_s] = number
        if last is not None and 1 < number - last <= MAX_SKIPPED:
            self._meter.skipped(group.name, number - last - 1)
        return number != last

    def _round(self, due: Sequence[RuleGroup], instant: Instant) -> list[Finding]:
        rules = [rule for group in due for rule in group.rules]
        evaluations = self._evaluator.evaluate(rules, instant)
        for name, error in self._evaluator.failures.items():
            self._meter.failed(name, error)
        return [
            finding
            for rule in rules
            if rule.name in evaluations
            for finding in self._findings[rule.name].advance(evaluations[rule.name])
        ]

    def _save(self, judged: Sequence[str]) -> None:
        due = [self._findings[name] for name in judged]
        try:
            if self._behind:
                self._storage.replace([f.stored() for f in self._findings.values()])
            else:
                changed = {of_rule.row.identity: of_rule.unsaved for of_rule in due}
                self._storage.save([of_rule.row for of_rule in due], changed)
        except sqlite3.Error as error:
            self._behind = True
            log.error("findings cannot be written: %s; tried again with the next round", error)  # noqa: TRY400 - no traceback for a full disk
            self._meter.unsaved(type(error).__name__)
        else:
            self._behind = False
        for of_rule in due:
            of_rule.unsaved.clear()


def _active_key(finding: Finding) -> str:
    """With the rule's own severity, whatever diagnosis made of it."""
    return f"{ACTIVE}:{finding.rule}:{finding.labels.get(SEVERITY, 'warning')}"
