"""Why a rule holds or not for one entity now: its parts with their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from otel_ofu.rules.files.rule import Rule
from otel_ofu.rules.language.syntax import Expression
from otel_ofu.rules.verdicts import Explained, Observed, Question, Round


class Explains(Protocol):
    """An engine that can take a condition apart (otel_ofu.rules.numpy.engine)."""

    def round(self, questions: Sequence[Question], at_s: float) -> Round: ...

    def explain(self, question: Question, at_s: float, entity_id: str) -> Sequence[Explained]: ...


@dataclass(frozen=True, slots=True)
class Explanation:
    """One condition at one entity: `title` is `expr` or `clear`.

    `parts`: the whole first, then every sub-expression. `evidence`: its comparisons with both
    sides, window and coverage.
    """

    title: str
    parts: Sequence[Explained]
    evidence: Sequence[Observed]


def explain(engine: Explains, rule: Rule, entity_id: str, at_s: float) -> list[Explanation]:
    """The conditions of a rule at an entity; none for a rule on silence. Raises KeyError."""
    conditions = (("expr", rule.condition), ("clear", rule.clear))
    return [
        _explained(engine, title, _question(rule, condition), (entity_id, at_s))
        for title, condition in conditions
        if isinstance(condition, Expression)
    ]


def _question(rule: Rule, condition: Expression) -> Question:
    return Question(condition, rule.limits.min_coverage, rule.limits.min_peers)


def _explained(
    engine: Explains, title: str, question: Question, where: tuple[str, float]
) -> Explanation:
    entity_id, at_s = where
    parts = engine.explain(question, at_s, entity_id)
    answer = engine.round([question], at_s)
    column = answer.rosters[question.expression.each].column(entity_id)
    evidence = () if column is None else answer.judgements[0].at(column)
    return Explanation(title, parts, evidence)
