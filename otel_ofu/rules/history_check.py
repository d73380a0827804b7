"""Rules held against what was observed: rounds in, a `Problem` for each doubtful rule out.

Doubtful is a rule that is never known, with the metrics that have no samples, and one that holds
for most of what it judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.model.errors import Problem
from otel_ofu.rules.annotations import duration_words
from otel_ofu.rules.files.lint import problem_at_rule
from otel_ofu.rules.files.rule import Rule, RuleSet
from otel_ofu.rules.language.syntax import (
    Comparator,
    Compare,
    Expression,
    FlagCondition,
    Latest,
    Number,
    Over,
    owner,
)
from otel_ofu.rules.lifecycle.evaluation import VerdictSource
from otel_ofu.rules.numpy.samples import reach_s
from otel_ofu.rules.verdicts import HOLDS, UNKNOWN, Condition, VerdictRound
from otel_ofu.store.retention import MIN_DEPTH_S

# Starting value: what holds for half of a fleet is no exception to be notified of.
MOST = 0.5
NOUNS: dict[EntityKind, str] = {"gpu": "GPU", "job": "job", "node": "node"}

Metric = tuple[EntityKind, str]


@dataclass
class _Tally:
    """What was seen of one rule: the last round, and whether it was ever known."""

    rule: Rule
    condition: Condition
    entities: int = 0
    holding: int = 0
    is_known: bool = False


class HistoryCheck:
    """`add` the rounds in the order of time; then `problems`."""

    def __init__(self, rules: RuleSet, registry: Registry) -> None:
        self._registry = registry
        self._tallies = [
            _Tally(rule, Condition(rule.condition, rule.limits))
            for rule in rules
            if isinstance(rule.condition, Expression)
        ]
        depths: dict[Metric, float] = {}
        for tally in self._tallies:
            for metric, depth_s in _metrics(tally.condition.expression):
                depths[metric] = max(depth_s, depths.get(metric, MIN_DEPTH_S))
        self._presence = {m: _presence(m, depth_s) for m, depth_s in depths.items()}
        self._present: set[Metric] = set()

    @property
    def conditions(self) -> list[Condition]:
        """What every round judges."""
        return [*(tally.condition for tally in self._tallies), *self._presence.values()]

    def add(self, source: VerdictSource, at_s: float) -> None:
        """The verdicts of one instant. Raises what the source raises."""
        round_ = source.round(self.conditions, at_s)
        for tally, judgement in zip(self._tallies, round_.judgements, strict=False):
            there = _there(round_, tally.condition.expression.each)
            verdicts = judgement.verdicts[there]
            tally.entities = len(verdicts)
            tally.holding = int((verdicts == HOLDS).sum())
            tally.is_known |= bool((verdicts != UNKNOWN).any())
        answers = round_.judgements[len(self._tallies) :]
        for metric, judgement in zip(self._presence, answers, strict=True):
            if (judgement.verdicts == HOLDS).any():
                self._present.add(metric)

    def problems(self) -> list[Problem]:
        """In the order of the files."""
        found = ((tally.rule, self._doubt(tally)) for tally in self._tallies)
        return [problem_at_rule(rule, doubt) for rule, doubt in found if doubt]

    def _doubt(self, tally: _Tally) -> str:
        noun = NOUNS[tally.condition.expression.each]
        if not tally.is_known:
            return self._never_known(tally.condition.expression, noun, tally.entities)
        if tally.holding < MOST * tally.entities or not tally.holding:
            return ""
        counted = f"{tally.entities} {noun}{'' if tally.entities == 1 else 's'}"
        return f"true for {tally.holding / tally.entities:.0%} of {counted} now"

    def _never_known(self, expression: Expression, noun: str, entities: int) -> str:
        if not entities:
            return f"never known: there is no {noun} here"
        absent = [m for m, _ in _metrics(expression) if m not in self._present]
        keys = list(dict.fromkeys(key for _, key in absent))
        if any(self._registry.metric(key).is_sparse for key in keys):
            return ""  # it appears with the first event
        if keys:
            return f"never known: {', '.join(keys)} {_have(keys)} no samples here"
        windows = [reach_s(node) for _, node in expression.windows]
        if not windows:
            return "never known: too few of its values are there at once"
        longest = duration_words(max(windows))
        return f"never known: too few samples for its windows, which reach back {longest}"


def _have(keys: list[str]) -> str:
    return "has" if len(keys) == 1 else "have"


def _there(round_: VerdictRound, kind: EntityKind) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which columns have an entity."""
    return np.array([e is not None for e in round_.rosters[kind].entities], bool)


def _metrics(expression: Expression) -> Iterator[tuple[Metric, float]]:
    """Every metric of a condition, and how far back it is looked for."""
    for node, kind in expression.nodes:
        match node:
            case Over():
                yield (owner(kind, node.scope), node.metric), reach_s(node)
            case Latest():
                yield (owner(kind, node.scope), node.metric), 0.0
            case FlagCondition():
                yield ("gpu", node.metric), 0.0
            case _:
                continue


def _presence(metric: Metric, depth_s: float) -> Condition:
    """Whether an entity has a sample of a metric."""
    kind, key = metric
    counted = Over("count", key, depth_s)
    return Condition(Expression("", kind, Compare(Comparator.GREATER, counted, Number(0.0))))
