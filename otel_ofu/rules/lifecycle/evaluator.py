"""All rules that are due, judged at one instant.

Enters: rules, instants. Leaves: an `Evaluation` a rule. The conditions of all rules go to the
source of verdicts in one round, so that they share their windows. When that fails, each rule is
tried by itself: one that cannot be judged does not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from otel_ofu.model.log_once import LogOnce
from otel_ofu.rules.files.rule import Rule, SilenceCondition
from otel_ofu.rules.lifecycle.evaluation import Evaluation
from otel_ofu.rules.lifecycle.silence import LastSeen, judge_silence
from otel_ofu.rules.verdicts import Condition, VerdictRound

log = logging.getLogger(__name__)


class VerdictSource(Protocol):
    """Judges conditions at an instant: over the store, or by asking a Prometheus."""

    def round(self, conditions: Sequence[Condition], at_s: float) -> VerdictRound: ...


@dataclass(frozen=True, slots=True)
class Instant:
    """Unix seconds. `at_s`: when windows end; `now_s`: the round; `running_s`: since when."""

    at_s: float
    now_s: float
    running_s: float


class RuleEvaluator:
    """`last_seen` None: rules on silence cannot be judged. `failures` counts by rule."""

    def __init__(self, source: VerdictSource, last_seen: LastSeen | None) -> None:
        self._source = source
        self._last_seen = last_seen
        self._once = LogOnce(log, level=logging.ERROR)
        self.failures: dict[str, str] = {}

    def evaluate(self, rules: Sequence[Rule], instant: Instant) -> Mapping[str, Evaluation]:
        """The rules that could be judged, by name; `failures` has the others of this round."""
        self.failures = {}
        asking = [rule for rule in rules if not isinstance(rule.condition, SilenceCondition)]
        found = dict(self._together(asking, instant))
        if self._last_seen is not None:
            for rule in rules:
                if isinstance(rule.condition, SilenceCondition):
                    found |= self._silent(self._last_seen, rule, rule.condition, instant)
        return found

    def _together(
        self, rules: Sequence[Rule], instant: Instant
    ) -> Iterator[tuple[str, Evaluation]]:
        if not rules:
            return
        try:
            yield from self._judge(rules, instant)
        except Exception as error:  # noqa: BLE001 - one rule must not stop the others
            if len(rules) == 1:
                self._failed(rules[0], error)
                return
            for rule in rules:
                yield from self._together([rule], instant)

    def _judge(self, rules: Sequence[Rule], instant: Instant) -> Sequence[tuple[str, Evaluation]]:
        conditions = [condition for rule in rules for condition in _conditions(rule)]
        answer = self._source.round(conditions, instant.at_s)
        judgements = iter(answer.judgements)
        found: list[tuple[str, Evaluation]] = []
        for rule in rules:
            condition = next(judgements)
            clears = next(judgements).verdicts if rule.clear else None
            roster = answer.rosters[rule.each]
            verdicts = condition.verdicts
            one = Evaluation(instant.now_s, roster, verdicts, clears, condition.at)
            found.append((rule.name, one))
        return found

    def _silent(
        self, last_seen: LastSeen, rule: Rule, silence: SilenceCondition, instant: Instant
    ) -> dict[str, Evaluation]:
        times = instant.now_s, instant.running_s
        try:
            return {rule.name: judge_silence(last_seen, rule.each, silence, times)}
        except Exception as error:  # noqa: BLE001 - as above: a server that is asked may be away
            self._failed(rule, error)
            return {}

    def _failed(self, rule: Rule, error: Exception) -> None:
        self.failures[rule.name] = type(error).__name__
        message = f"{type(error).__name__}: {error}"
        self._once.log(f"rule {rule.name} cannot be judged: {message}")


def _conditions(rule: Rule) -> Iterator[Condition]:

    for expression in (rule.condition, rule.clear):
        if expression is not None and not isinstance(expression, SilenceCondition):
            yield Condition(expression, rule.limits)
