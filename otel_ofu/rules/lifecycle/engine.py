"""Rules on a schedule: verdicts in, changes of findings out.

Enters: instants, and through the source of verdicts what was measured. Leaves: `Change`s
to `emit`, which must not raise. The engine belongs to one thread; `reload` may be called from any
and counts from the next round.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from otel_ofu.model import Observation, Window
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.rules.files.rule import Group, RuleSet
from otel_ofu.rules.lifecycle.change import Change
from otel_ofu.rules.lifecycle.judging import Instant, Judge, VerdictSource
from otel_ofu.rules.lifecycle.memory import FindingMemory
from otel_ofu.rules.lifecycle.silence import Ears
from otel_ofu.rules.lifecycle.tracking import Tracked, adopt, farewells

log = logging.getLogger(__name__)

Emit = Callable[[Change], None]
ACTIVE = "finding_active"
MAX_SKIPPED = 1_000_000


class Meter(Protocol):
    """Where the engine counts its own work."""

    def judged(self, seconds: float, late_s: float) -> None:
        """A round took so long and began so much after its instant."""

    def skipped(self, group: str, rounds: int) -> None:
        """Rounds of a group that nobody ran."""

    def failed(self, rule: str, error: str) -> None:
        """A rule could not be judged; `error` is the type of the fault."""

    def unsaved(self, error: str) -> None:
        """Findings could not be written; they are tried again with the next round."""


class NoMeter:
    """For replay and tests: nobody counts."""

    def judged(self, seconds: float, late_s: float) -> None: ...

    def skipped(self, group: str, rounds: int) -> None: ...

    def failed(self, rule: str, error: str) -> None: ...

    def unsaved(self, error: str) -> None: ...


class Engine:
    """`delay_s`: windows end so long before the round, for data that is still on its way.

    Findings of a rule that is gone end with the first round.
    """

    def __init__(  # noqa: PLR0913 - the seams of the engine, by name
        self,
        rules: RuleSet,
        source: VerdictSource,
        emit: Emit,
        *,
        memory: FindingMemory | None = None,
        ears: Ears | None = None,
        meter: Meter | None = None,
        clock: Clock | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self._judge = Judge(source, ears)
        self._emit = emit
        self._memory = memory or FindingMemory(None)
        self._meter = meter or NoMeter()
        self._clock = clock or SystemClock()
        self._delay_s = delay_s
        self._lock = threading.Lock()
        self._rules = RuleSet()
        self._next: RuleSet | None = rules
        self._tracked: dict[str, Tracked] = {}
        self._rounds: dict[tuple[str, float], int] = {}
        self._listening_s: float | None = None
        self._kept = self._memory.load()
        self._behind = False
        self._active: Sequence[Change] = ()

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
        if self._listening_s is None or now_s < self._listening_s:
            self._listening_s = now_s
        self._take_over(now_s)
        due = [group for group in self._rules.groups if self._is_due(group, now_s)]
        if not due:
            return
        changes = self._round(due, Instant(now_s - self._delay_s, now_s, self._listening_s))
        self._look_around()
        for change in changes:
            self._emit(change)
        self._save([rule.name for group in due for rule in group.rules])
        self._meter.judged(self._clock.monotonic_s() - started_s, max(0.0, late_s))

    def active(self) -> Sequence[Change]:
        """What was told last of every finding that is open; may be called from any thread.

        After a restart a finding is there as soon as its rule was judged once.
        """
        return self._active

    def observations(self, now_s: float) -> list[Observation]:
        """1 for every open finding, as `ofu.finding.active` of its entity; without summaries."""
        window = Window(now_s, now_s)
        by_entity: dict[tuple[str, str], list[Change]] = {}
        for change in self.active():
            if change.entity is not None:
                by_entity.setdefault((change.each, change.entity.id), []).append(change)
        return [
            Observation(changes[-1].entity, window, {_active_key(c): 1.0 for c in changes})
            for changes in by_entity.values()
            if changes[-1].entity is not None
        ]

    def close(self) -> None:
        self._memory.close()

    def _take_over(self, now_s: float) -> None:
        with self._lock:
            rules, self._next = self._next, None
        if rules is None:
            return
        kept = self._kept or {t.row.identity: t.kept() for t in self._tracked.values()}
        self._kept = {}
        ends = list(farewells(kept, rules, now_s))
        self._tracked = adopt(kept, rules)
        self._rules = rules
        self._look_around()
        for change in ends:
            self._emit(change)
        self._behind = True
        self._save([])

    def _look_around(self) -> None:
        self._active = tuple(c for tracked in self._tracked.values() for c in tracked.active())

    def _is_due(self, group: Group, now_s: float) -> bool:
        """Once for every multiple of the interval; after the clock was set back again."""
        number = math.floor(now_s / group.interval_s + 1e-9)
        last = self._rounds.get((group.name, group.interval_s))
        self._rounds[group.name, group.interval_s] = number
        if last is not None and 1 < number - last <= MAX_SKIPPED:
            self._meter.skipped(group.name, number - last - 1)
        return number != last

    def _round(self, due: Sequence[Group], instant: Instant) -> list[Change]:
        rules = [rule for group in due for rule in group.rules]
        judged = self._judge.judge(rules, instant)
        for name, error in self._judge.failures.items():
            self._meter.failed(name, error)
        return [
            change
            for rule in rules
            if rule.name in judged
            for change in self._tracked[rule.name].advance(judged[rule.name], instant.now_s)
        ]

    def _save(self, judged: Sequence[str]) -> None:
        tracked = [self._tracked[name] for name in judged]
        try:
            if self._behind:
                self._memory.replace([t.kept() for t in self._tracked.values()])
            else:
                changed = {t.row.identity: t.findings.unsaved for t in tracked}
                self._memory.save([t.row for t in tracked], changed)
        except sqlite3.Error as error:
            self._behind = True
            log.error("findings cannot be written: %s; tried again with the next round", error)  # noqa: TRY400 - no traceback for a full disk
            self._meter.unsaved(type(error).__name__)
        else:
            self._behind = False
        for each in tracked:
            each.findings.unsaved.clear()


def _active_key(change: Change) -> str:
    return f"{ACTIVE}:{change.rule}:{change.severity}"
