"""Rounds over a server: a strict stand-in that knows its queries by heart."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import EntityKind
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.files.rule import SilenceCondition
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.syntax import (
    Aggregate,
    And,
    Comparator,
    Compare,
    DataLimits,
    Expression,
    Latest,
    Number,
    Numeric,
    Over,
)
from otel_ofu.rules.lifecycle.evaluation import judge_silence
from otel_ofu.rules.promql.compiler import Compiler, checked_text
from otel_ofu.rules.promql.engine import PromqlEngine, PromqlLastSeen
from otel_ofu.rules.promql.samples import MetricVectors, NotInPromqlError
from otel_ofu.rules.promql.server import QueryError, Sample, ServerUnavailableError
from otel_ofu.rules.promql.vectors import CompilerSettings
from otel_ofu.rules.verdicts import CLEAR, HOLDS, UNKNOWN, Condition, Judgement, VerdictRound
from tests.rules.promql.queries import value_query

REGISTRY = load_registry()
AT_S = 1_700_000_000.0
ASKED = CompilerSettings(closed_windows=True)


def labels(gpu: str, job: str = "j") -> dict[str, str]:
    known = {"hw_id": gpu, "ofu_job_id": job, "ofu_gpu_sku": "s", "host_name": "n"}
    return {name: value for name, value in known.items() if value}


class Answers:
    """Answers of a server by query; a query that nobody foresaw is a mistake of the test."""

    def __init__(self, answers: Mapping[str, list[Sample]]) -> None:
        self.answers = dict(answers)
        self.queries: list[str] = []
        self.away: QueryError | None = None

    def query(self, promql: str, at_s: float) -> list[Sample]:
        assert at_s == AT_S
        self.queries.append(promql)
        if self.away:
            raise self.away
        return self.answers[promql]


def present(kind: EntityKind) -> str:
    return MetricVectors(REGISTRY, ASKED, kind).present().text


def question(text: str, each: EntityKind = "gpu", **limits: float) -> Condition:
    return Condition(parse_condition(text, each, REGISTRY), DataLimits(**limits))  # type: ignore[arg-type]


def query(text: str, each: EntityKind = "gpu", *, left: bool = True) -> str:
    """The query for one side of a comparison."""
    expression = parse_condition(text, each, REGISTRY)
    assert isinstance(expression.root, Compare)
    side: Numeric = expression.root.left if left else expression.root.right
    return value_query(expression, side, REGISTRY, ASKED)


def coverage(text: str, each: EntityKind = "gpu") -> str:
    """The query for what the left side of a comparison rests on."""
    root = parse_condition(text, each, REGISTRY).root
    assert isinstance(root, Compare)
    assert isinstance(root.left, Over | Aggregate)
    compiler = Compiler(MetricVectors(REGISTRY, ASKED, each))
    return checked_text(compiler.for_all(compiler.coverage(root.left)))


def fleet(values: Mapping[str, Mapping[str, float]], gpus: str = "abc") -> Answers:
    """GPUs by letter; `values`: condition whose left side has these values."""
    answers: dict[str, list[Sample]] = {
        query(text): [(labels(gpu), value) for gpu, value in by_gpu.items()]
        for text, by_gpu in values.items()
    }
    return Answers({**answers, present("gpu"): [(labels(gpu), 1.0) for gpu in gpus]})


def verdicts(round_: VerdictRound, judgement: Judgement) -> dict[str, int]:
    entities = round_.rosters[judgement.condition.expression.each].entities
    return {
        entity.id: int(judgement.verdicts[column])
        for column, entity in enumerate(entities)
        if entity is not None
    }


def judge(answers: Answers, *questions: Condition) -> list[dict[str, int]]:
    round_ = PromqlEngine(answers, REGISTRY).round(questions, AT_S)
    return [verdicts(round_, judgement) for judgement in round_.judgements]


def test_who_has_no_value_is_there_and_unknown() -> None:
    answers = fleet({"ofu < 15%": {"a": 0.1, "b": 0.5}})
    assert judge(answers, question("ofu < 15%")) == [{"a/j": HOLDS, "b/j": CLEAR, "c/j": UNKNOWN}]


def test_logic_has_three_values() -> None:
    answers = fleet({"ofu < 15%": {"a": 0.1, "b": 0.5}, "gpu_util > 90%": {"b": 0.99, "c": 0.1}})
    both, either, neither = judge(
        answers,
        question("ofu < 15% and gpu_util > 90%"),
        question("ofu < 15% or gpu_util > 90%"),
        question("not (ofu < 15% or gpu_util > 90%)"),
    )
    assert both == {"a/j": UNKNOWN, "b/j": CLEAR, "c/j": CLEAR}
    assert either == {"a/j": HOLDS, "b/j": HOLDS, "c/j": UNKNOWN}
    assert neither == {"a/j": CLEAR, "b/j": CLEAR, "c/j": UNKNOWN}


def test_what_several_rules_use_is_asked_for_once() -> None:
    answers = fleet({"ofu < 15%": {"a": 0.1}})
    judge(answers, question("ofu < 15%"), question("ofu < 50% and ofu > 20%"))
    assert sorted(answers.queries) == sorted({query("ofu < 15%"), present("gpu")})


def test_the_entity_is_named_as_in_the_agents_own_store() -> None:
    answers = Answers(
        {query("ofu < 1"): [(labels("a"), 0.1), (labels("b", job=""), 0.1)], present("gpu"): []}
    )
    round_ = PromqlEngine(answers, REGISTRY).round([question("ofu < 1")], AT_S)
    under_a_job, alone = round_.rosters["gpu"].entities
    assert under_a_job is not None
    assert alone is not None
    assert under_a_job.id == "a/j"
    assert alone.id == "b"
    assert under_a_job.attributes == {
        "hw.id": "a",
        "ofu.job.id": "j",
        "ofu.gpu.sku": "s",
        "host.name": "n",
    }
    assert "ofu.job.id" not in alone.attributes


def test_evidence_comes_with_the_verdict() -> None:
    text = "avg(ofu, 1m) < 15%"
    answers = fleet({text: {"a": 0.125}})
    answers.answers[coverage(text)] = [(labels("a"), 5 / 6), (labels("elsewhere"), 1.0)]
    round_ = PromqlEngine(answers, REGISTRY).round([question(text)], AT_S)
    (seen,) = round_.judgements[0].at(0)
    assert (seen.verdict, seen.value, seen.window_s) == (HOLDS, 0.125, 60.0)
    assert seen.threshold == pytest.approx(0.15)
    assert seen.coverage == pytest.approx(5 / 6)
    assert len(round_.rosters["gpu"].entities) == 3


def test_coverage_is_not_asked_for_while_nothing_holds() -> None:
    answers = fleet({"avg(ofu, 1m) < 15%": {"a": 0.5}})
    round_ = PromqlEngine(answers, REGISTRY).round([question("avg(ofu, 1m) < 15%")], AT_S)
    assert len(answers.queries) == 2
    assert math.isnan(round_.judgements[0].at(0)[0].coverage)


def test_constants_hold_for_everybody_who_is_there() -> None:
    assert judge(fleet({}, "ab"), question("1 < 2")) == [{"a/j": HOLDS, "b/j": HOLDS}]
    assert judge(fleet({}, "a"), question("1 / 0 < 2")) == [{"a/j": UNKNOWN}]


@pytest.mark.parametrize(("each", "label"), [("job", "ofu_job_id"), ("node", "host_name")])
def test_jobs_and_nodes_are_judged_by_their_labels(each: EntityKind, label: str) -> None:
    text = "gpus.avg(ofu) < 15%"
    answers = Answers(
        {
            query(text, each): [({label: "x"}, 0.1)],
            present(each): [({label: "y"}, 1.0)],
            coverage(text, each): [({label: "x"}, 0.75)],
        }
    )
    round_ = PromqlEngine(answers, REGISTRY).round([question(text, each)], AT_S)
    assert verdicts(round_, round_.judgements[0]) == {"x": HOLDS, "y": UNKNOWN}
    assert round_.judgements[0].at(0)[0].coverage == 0.75


def test_limits_of_a_rule_are_in_its_queries() -> None:
    with pytest.raises(KeyError, match=">= 54"):
        judge(fleet({}), question("avg(ofu, 10m) < 1", min_coverage=0.9))
    with pytest.raises(KeyError, match=">= 7"):
        judge(fleet({}), question("peers.avg(ofu) < 1", min_peers=7))


def test_a_round_is_whole_or_there_is_none() -> None:
    answers = fleet({"ofu < 1": {"a": 0.1}})
    answers.away = QueryError("http://h: too many samples")
    with pytest.raises(QueryError, match="too many samples"):
        judge(answers, question("ofu < 1"))


def test_a_server_that_is_away_is_asked_once_an_instant() -> None:
    answers = fleet({"ofu < 1": {"a": 0.1}})
    engine = PromqlEngine(answers, REGISTRY)
    answers.away = ServerUnavailableError("http://h: Connection refused")
    for _ in range(3):
        with pytest.raises(ServerUnavailableError, match="Connection refused"):
            engine.round([question("ofu < 1")], AT_S)
    assert len(answers.queries) == 1


def test_a_server_that_is_back_answers_the_next_instant() -> None:
    answers = fleet({"ofu < 1": {"a": 0.1}})
    engine = PromqlEngine(answers, REGISTRY)
    answers.away = ServerUnavailableError("http://h: Connection refused")
    with pytest.raises(ServerUnavailableError):
        engine.round([question("ofu < 1")], AT_S)
    answers.away = None
    with pytest.raises(AssertionError):  # the stand-in answers at one instant alone
        engine.round([question("ofu < 1")], AT_S + 30)


def test_every_part_can_be_explained() -> None:
    answers = fleet({"ofu < 15%": {"a": 0.125, "b": 0.5}, "gpu_util > 90%": {"a": 0.75}})
    engine = PromqlEngine(answers, REGISTRY)
    told = engine.explain(question("ofu < 15% and gpu_util > 90%"), AT_S, "a/j")
    assert [(part.text, part.depth, part.verdict) for part in told if part.verdict is not None] == [
        ("ofu < 15% and gpu_util > 90%", 0, CLEAR),
        ("ofu < 15%", 1, HOLDS),
        ("gpu_util > 90%", 1, CLEAR),
    ]
    values = {part.text: part.value for part in told if part.verdict is None}
    assert values == pytest.approx({"ofu": 0.125, "15%": 0.15, "gpu_util": 0.75, "90%": 0.9})
    with pytest.raises(KeyError, match="nobody"):
        engine.explain(question("ofu < 15% and gpu_util > 90%"), AT_S, "nobody")


def test_a_condition_that_cannot_be_asked_is_told_before() -> None:
    strange = Compare(Comparator.LESS, Latest("nonsense"), Number(1.0))
    engine = PromqlEngine(Answers({}), REGISTRY)
    engine.check(question("ofu < 1 and 1 > 2"))
    with pytest.raises(NotInPromqlError, match="nonsense"):
        engine.check(Condition(Expression("", "gpu", And((strange, strange)))))


def test_a_number_is_not_judged() -> None:
    number = Condition(Expression("ofu", "gpu", Latest("ofu")))
    with pytest.raises(TypeError, match="no condition: ofu"):
        judge(fleet({}), number)


def test_silence_is_known_through_the_server() -> None:
    text = MetricVectors(REGISTRY, CompilerSettings(), "gpu").seen().text
    answers = Answers({text: [(labels("a"), AT_S - 10.0), (labels("b"), AT_S - 300.0)]})
    last_seen = PromqlLastSeen(answers, REGISTRY, clock=VirtualClock(AT_S))
    silent = judge_silence(last_seen, "gpu", SilenceCondition(120.0), (AT_S, AT_S - 1_000.0))
    ids = [entity.id for entity in silent.roster.entities if entity is not None]
    assert dict(zip(ids, silent.verdicts.tolist(), strict=True)) == {"a/j": CLEAR, "b/j": HOLDS}
