"""The same conditions judged by a Prometheus-like server: a round of queries -> a `Round`.

What is asked are the numbers on both sides of each comparison, once a round however many rules use
them; comparing them, and the logic of three values, happen here. So evidence comes with every
verdict, and the answer is that of the embedded engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.language.syntax import comparisons
from otel_ofu.rules.promql.asked import KINDS, Asked
from otel_ofu.rules.promql.compiler import Compiler, checked_text
from otel_ofu.rules.promql.samples import Samples
from otel_ofu.rules.promql.server import Queries, ServerUnavailable
from otel_ofu.rules.promql.settings import Settings
from otel_ofu.rules.promql.sheet import Sheet, sides
from otel_ofu.rules.verdicts import Explained, Question, Round


class PromqlEngine:
    """Judges conditions by asking a server. `step_s`: seconds between the samples it holds.

    A round is whole or there is none: QueryError when one of its queries has no answer.
    """

    def __init__(self, queries: Queries, registry: Registry, *, step_s: float = 10.0) -> None:
        self._queries = queries
        self._registry = registry
        self._step_s = step_s
        self._away: tuple[float, str] | None = None

    def check(self, question: Question) -> None:
        """Whether a condition can be asked at all. Raises NotInPromql."""
        compiler = self._compiler(question)
        for leaf in comparisons(question.expression.root):
            for side in sides(leaf):
                checked_text(compiler.for_all(compiler.value(side)))

    def round(self, questions: Sequence[Question], at_s: float) -> Round:
        """All questions at one instant. Raises QueryError, NotInPromql.

        A server that was away at this instant is not asked about it again: who then tries rule by
        rule does not wait for each of them.
        """
        if self._away and self._away[0] == at_s:
            raise ServerUnavailable(self._away[1])
        try:
            return self._round(questions, at_s)
        except ServerUnavailable as error:
            self._away = at_s, str(error)
            raise

    def _round(self, questions: Sequence[Question], at_s: float) -> Round:
        asked = Asked(self._queries, at_s)
        sheets = [Sheet(question, self._compiler(question), asked) for question in questions]
        kinds = [kind for kind in KINDS if any(sheet.kind == kind for sheet in sheets)]
        self._ask(asked, sheets, kinds)
        judgements = [sheet.judge() for sheet in sheets]
        return Round(at_s, {kind: asked.roster(kind) for kind in KINDS}, judgements)

    def explain(self, question: Question, at_s: float, entity_id: str) -> Sequence[Explained]:
        """Every part of a condition at one entity, the whole first.

        Raises KeyError for an entity that is not there, QueryError, NotInPromql.
        """
        asked, kind = Asked(self._queries, at_s), question.expression.each
        sheet = Sheet(question, self._compiler(question), asked)
        self._ask(asked, [sheet], [kind])
        column = asked.roster(kind).column(entity_id)
        if column is None:
            raise KeyError(entity_id)
        return list(sheet.explain(column))

    def _ask(self, asked: Asked, sheets: Sequence[Sheet], kinds: Sequence[EntityKind]) -> None:
        for sheet in sheets:
            sheet.ask()
        for kind in kinds:  # who has no value at all is unknown, but there
            settings = Settings(self._step_s, closed_windows=True)
            asked.ask(kind, Samples(self._registry, settings, kind).present())
        asked.close()

    def _compiler(self, question: Question) -> Compiler:
        settings = Settings(
            self._step_s, question.min_coverage, question.min_peers, closed_windows=True
        )
        return Compiler(Samples(self._registry, settings, question.expression.each))
