"""All rules that are due, judged at one instant: rules in, verdicts and evidence by column out.

Conditions of all rules go to the source of verdicts in one round, so that they share their windows.
When that fails, each rule is tried by itself: one that cannot be judged does not stop the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from otel_ofu.model.log_once import LogOnce
from otel_ofu.rules.files.rule import Rule, Silence
from otel_ofu.rules.lifecycle.findings import Present
from otel_ofu.rules.lifecycle.silence import Ears, judge_silence
from otel_ofu.rules.lifecycle.telling import Look
from otel_ofu.rules.verdicts import Judgement, Observed, Question, Round, Verdicts

log = logging.getLogger(__name__)


class VerdictSource(Protocol):
    """Judges conditions at an instant: over the store, or by asking a Prometheus."""

    def round(self, questions: Sequence[Question], at_s: float) -> Round: ...


@dataclass(frozen=True, slots=True)
class Instant:
    """Unix seconds. `at_s`: when windows end; `now_s`: the round; `listening_s`: since when."""

    at_s: float
    now_s: float
    listening_s: float


@dataclass(frozen=True, slots=True)
class RuleRound:
    """One rule at one instant, by column."""

    present: Present
    verdicts: Verdicts
    clears: Verdicts | None
    look: Look


class Judge:
    """`ears` None: rules on silence cannot be judged. `failures` counts by rule."""

    def __init__(self, source: VerdictSource, ears: Ears | None) -> None:
        self._source = source
        self._ears = ears
        self._once = LogOnce(log, level=logging.ERROR)
        self.failures: dict[str, str] = {}

    def judge(self, rules: Sequence[Rule], instant: Instant) -> Mapping[str, RuleRound]:
        """The rules that could be judged, by name; `failures` has the others of this round."""
        self.failures = {}
        asking = [rule for rule in rules if not isinstance(rule.condition, Silence)]
        rounds = dict(self._together(asking, instant))
        if self._ears is not None:
            for rule in rules:
                if isinstance(rule.condition, Silence):
                    rounds |= self._silent(self._ears, rule, rule.condition, instant)
        return rounds

    def _together(self, rules: Sequence[Rule], instant: Instant) -> Iterator[tuple[str, RuleRound]]:
        if not rules:
            return
        try:
            yield from self._ask(rules, instant)
        except Exception as error:  # noqa: BLE001 - one rule must not stop the others
            if len(rules) == 1:
                self._failed(rules[0], error)
                return
            for rule in rules:
                yield from self._together([rule], instant)

    def _ask(self, rules: Sequence[Rule], instant: Instant) -> Sequence[tuple[str, RuleRound]]:
        questions = [question for rule in rules for question in _questions(rule)]
        answer = self._source.round(questions, instant.at_s)
        judgements = iter(answer.judgements)
        present = {kind: Present(roster.entities) for kind, roster in answer.rosters.items()}
        found: list[tuple[str, RuleRound]] = []
        for rule in rules:
            condition = next(judgements)
            clears = next(judgements).verdicts if rule.clear else None
            found.append(
                (
                    rule.name,
                    RuleRound(present[rule.each], condition.verdicts, clears, _evidence(condition)),
                )
            )
        return found

    def _silent(
        self, ears: Ears, rule: Rule, silence: Silence, instant: Instant
    ) -> dict[str, RuleRound]:
        try:
            silent = judge_silence(ears, rule.each, silence, (instant.now_s, instant.listening_s))
        except Exception as error:  # noqa: BLE001 - as above: a server that listens may be away
            self._failed(rule, error)
            return {}
        return {rule.name: RuleRound(Present(silent.entities), silent.verdicts, None, silent.look)}

    def _failed(self, rule: Rule, error: Exception) -> None:
        words = f"{type(error).__name__}: {error}"
        self.failures[rule.name] = type(error).__name__
        self._once.log(f"rule {rule.name} cannot be judged: {words}")


def _questions(rule: Rule) -> Iterator[Question]:
    limits = rule.limits
    for expression in (rule.condition, rule.clear):
        if expression is not None and not isinstance(expression, Silence):
            yield Question(expression, limits.min_coverage, limits.min_peers)


def _evidence(judgement: Judgement) -> Look:
    def look(column: int | None) -> Sequence[Observed]:
        return () if column is None else judgement.at(column)

    return look
