"""Every row of the table of functions, held to all that reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.files.shape import schema
from otel_ofu.rules.functions import (
    GROUP_FUNCTIONS,
    SCALAR_FUNCTIONS,
    WINDOW_FUNCTIONS,
    all_functions,
)
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import Expression, walk
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.promql.compiler import alert_query
from otel_ofu.rules.promql.vectors import CompilerSettings
from otel_ofu.rules.verdicts import UNKNOWN, Condition
from tests.rules.promql.queries import verdict_query
from tests.store.fleets import START_S, Bench, gpu, seen

REGISTRY = load_registry()
RULES_PAGE = Path(__file__).parents[3] / "docs" / "rules.md"
UNTIL_S = 600


def calls() -> Iterator[tuple[EntityKind, str]]:
    """Every function as a rule would call it, and the kind of entity of the rule."""
    for window in WINDOW_FUNCTIONS.values():
        metric = "xid:79" if window.metrics == "counter" else "ofu"
        yield "gpu", window.usage.replace("metric", metric).replace("10m", "5m")
    for scalar in SCALAR_FUNCTIONS.values():
        yield "gpu", scalar.usage.replace("(x)", "(ofu)")
    for group in GROUP_FUNCTIONS.values():
        yield "gpu", group.usage("peers").replace("x)", "ofu)")
        yield "job", group.usage("gpus").replace("x)", "ofu)")
        if group.of_condition:
            yield "job", f"gpus.{group.name}(ofu < 5%)"


CALLS = tuple(calls())


def fleet() -> Bench:
    """Four GPUs of one job that show all that the calls ask for."""
    bench = Bench()
    for at_s in range(10, UNTIL_S + 10, 10):
        values = {"ofu": 0.3 + at_s / 10_000, "xid:79": at_s / 10}
        bench.write(*(seen(gpu(f"g{i}", "j"), at_s, values) for i in range(4)))
    return bench


def condition(each: EntityKind, call: str) -> Expression:
    return parse_condition(f"{call} >= 0", each, REGISTRY)


@pytest.mark.parametrize(("each", "call"), CALLS)
def test_every_function_is_accepted_and_reads_back(each: EntityKind, call: str) -> None:
    expression = condition(each, call)
    assert parse_condition(to_text(expression.root), each, REGISTRY) == expression
    assert len(list(walk(expression.root))) >= 3


@pytest.mark.parametrize(("each", "call"), CALLS)
def test_every_function_has_a_value_over_the_store(each: EntityKind, call: str) -> None:
    question = Condition(condition(each, call))
    (judgement,) = NumpyEngine(fleet().store).round([question], START_S + UNTIL_S).judgements
    assert UNKNOWN not in judgement.verdicts[: 4 if each == "gpu" else 1]


@pytest.mark.parametrize(("each", "call"), CALLS)
def test_every_function_has_its_promql(each: EntityKind, call: str) -> None:
    expression = condition(each, call)
    for query in (alert_query, verdict_query):
        text = query(expression, REGISTRY, CompilerSettings())
        assert "ofu_gpu_utilization_ratio" in text or "hw_errors" in text
        assert "{samples}" not in text


@pytest.mark.parametrize(("usage", "gives"), all_functions())
def test_every_function_stands_in_the_schema_and_on_the_page(usage: str, gives: str) -> None:
    described = schema()["$defs"]["RuleShape"]["properties"]["expr"]
    assert f"{usage}: {gives}" in described["description"].splitlines()
    assert f"| `{usage}` | {gives} |" in RULES_PAGE.read_text("utf-8").splitlines()
