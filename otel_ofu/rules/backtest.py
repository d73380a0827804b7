"""Rules on the past: observations in, what would have fired, when and for how long out.

The same store and engine as live, on the time of the recording.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Finding, Observation
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.files.rule import RuleSet
from otel_ofu.rules.lifecycle.engine import Engine
from otel_ofu.rules.lifecycle.evaluation import StoreLastSeen
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.store import Store

Tick = tuple[float, Sequence[Observation]]
Progress = Callable[[float], None]
"""Called with the time of every tick, in Unix seconds."""

# Starting value: an overnight pause is judged as silence for a while, a gap of weeks is not.
LONGEST_GAP_S = 6 * 3_600.0
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Episode:
    """One finding as it opened and as it ended; `ended` None: still open at the end."""

    opened: Finding
    ended: Finding | None = None

    @property
    def entity(self) -> str:
        """Empty for a summary."""
        return self.opened.entity.id if self.opened.entity else ""

    @property
    def opened_s(self) -> float:
        return self.opened.at_s

    @property
    def ended_s(self) -> float | None:
        return self.ended.at_s if self.ended else None

    def lasted_s(self, end_s: float) -> float:
        """How long it was open, up to `end_s` if it still is."""
        return (end_s if self.ended_s is None else self.ended_s) - self.opened_s


@dataclass(slots=True)
class BacktestResult:
    """What a set of rules made of a recording; episodes in the order of their opening."""

    start_s: float = math.inf
    end_s: float = -math.inf
    ticks: int = 0
    rounds: int = 0
    gpu_days: float = 0.0
    episodes: list[Episode] = field(default_factory=list)

    def take(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            if finding.kind == "opened":
                self.episodes.append(Episode(finding))
            elif finding.kind == "resolved":
                self._end(finding)

    def _end(self, end: Finding) -> None:
        for index in range(len(self.episodes) - 1, -1, -1):
            episode = self.episodes[index]
            if episode.opened.fingerprint == end.fingerprint and episode.ended is None:
                self.episodes[index] = Episode(episode.opened, end)
                return


@dataclass(frozen=True, slots=True)
class Difference:
    """An episode that only one of two sets of rules has, or that both have at other times."""

    before: Episode | None
    after: Episode | None


def backtest(
    ticks: Iterable[Tick],
    rule_sets: Sequence[RuleSet],
    registry: Registry,
    *,
    step_s: float | None = None,
    progress: Progress | None = None,
) -> list[BacktestResult]:
    """Judges every set of rules over the same observations, oldest first; one result each.

    `step_s`: the interval of the recording; None takes it from its first two ticks.
    """
    stream = iter(ticks)
    first = list(itertools.islice(stream, 2))
    run = _Backtest(rule_sets, registry, step_s or _step_s(first))
    for now_s, observations in itertools.chain(first, stream):
        run.live(now_s, observations)
        if progress:
            progress(now_s)
    return run.close()


def differences(before: BacktestResult, after: BacktestResult) -> list[Difference]:
    """What fires only before, only after, or at other times. Episodes match when they overlap."""
    left = list(after.episodes)
    found: list[Difference] = []
    for episode in before.episodes:
        same = next((other for other in left if _overlap(episode, other)), None)
        if same is not None:
            left.remove(same)
        if same is None or (same.opened_s, same.ended_s) != (episode.opened_s, episode.ended_s):
            found.append(Difference(episode, same))
    return found + [Difference(None, episode) for episode in left]


def _overlap(a: Episode, b: Episode) -> bool:
    one, other = a.opened, b.opened
    if (one.rule, one.each, a.entity) != (other.rule, other.each, b.entity):
        return False
    a_end = math.inf if a.ended_s is None else a.ended_s
    b_end = math.inf if b.ended_s is None else b.ended_s
    return one.since_s <= b_end and other.since_s <= a_end


def _step_s(first: Sequence[Tick]) -> float:
    apart_s = first[1][0] - first[0][0] if len(first) > 1 else 0.0
    return max(1.0, round(apart_s)) if apart_s > 0 else 10.0


class _Backtest:
    """One store, and an engine for each set of rules."""

    def __init__(self, rule_sets: Sequence[RuleSet], registry: Registry, step_s: float) -> None:
        self._clock = VirtualClock()
        expressions = [e for rules in rule_sets for e in rules.expressions()]
        retention = retention_for(expressions, step_s)
        self._store = Store(registry, retention, step_s=step_s, clock=self._clock)
        self._step_s = step_s
        self._pasts = [BacktestResult() for _ in rule_sets]
        source, last_seen = NumpyEngine(self._store), StoreLastSeen(self._store)
        self._engines = [
            Engine(rules, source, past.take, last_seen=last_seen, clock=self._clock)
            for rules, past in zip(rule_sets, self._pasts, strict=True)
        ]
        intervals = [g.interval_s for rules in rule_sets for g in rules.groups]
        self._every_s = min(intervals, default=step_s)
        self._judged_s: float | None = None

    def live(self, now_s: float, observations: Sequence[Observation]) -> None:
        self._judge_until(now_s - 1e-6)
        self._clock.set(max(now_s, self._clock.now_s()))
        self._store.write(observations)
        self._judge_until(now_s)
        gpus = sum(1 for o in observations if o.entity.kind == "gpu")
        for past in self._pasts:
            past.start_s, past.end_s = min(past.start_s, now_s), max(past.end_s, now_s)
            past.ticks += 1
            past.gpu_days += gpus * self._step_s / DAY_S

    def close(self) -> list[BacktestResult]:
        for engine in self._engines:
            engine.close()
        return self._pasts

    def _judge_until(self, now_s: float) -> None:
        for at_s in self._due(now_s):
            self._clock.set(max(at_s, self._clock.now_s()))
            for engine, past in zip(self._engines, self._pasts, strict=True):
                engine.tick(at_s)
                past.rounds += 1

    def _due(self, now_s: float) -> Iterator[float]:
        """The instants of rounds since the last one; of a long gap its first hours."""
        last = math.floor(now_s / self._every_s + 1e-9)
        if self._judged_s is None:
            self._judged_s = (last - 1) * self._every_s
        first = round(self._judged_s / self._every_s) + 1
        longest = round(LONGEST_GAP_S / self._every_s)
        for number in range(first, min(last, first + longest) + 1):
            yield number * self._every_s
        self._judged_s = max(self._judged_s, last * self._every_s)
