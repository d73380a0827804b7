"""Comparisons that the range of a metric decides, and what comparisons have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.ranges import Ranges
from otel_ofu.rules.language.spans import contradiction, never_clears, overlap
from otel_ofu.rules.language.syntax import Compare, DataLimits, Expression
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.verdicts import CLEAR, HOLDS, Condition
from tests.properties import examples
from tests.rules.promql.fleet import small_fleet
from tests.rules.trees import conditions

REGISTRY = load_registry()
RANGES = Ranges(REGISTRY, DataLimits())


def parsed(text: str, each: EntityKind = "gpu") -> Expression:
    return parse_condition(text, each, REGISTRY)


def outcome(text: str, each: EntityKind = "gpu", ranges: Ranges = RANGES) -> str | None:
    root = parsed(text, each).root
    assert isinstance(root, Compare)
    return ranges.outcome(root)


@pytest.mark.parametrize(
    "text",
    [
        "ofu < 15",
        "15 > ofu",
        "avg(ofu, 10m) > -1",
        "quantile(0.5, gpu_util, 5m) != 90",
        "peers.mad(gpu_util) < 2",
        "stddev(gpu_util, 10m) < 60%",
        "abs(gpu_util - 1) <= 1.5",
        "sm_clock > 1980",
        "power < 700000",
        "increase(throttle_time:thermal, 5m) < 30m",
        "peers.count(ofu) > 3",
        "gpus_read < 2000",
        "1 < 2",
        "-temperature < 1000",
    ],
)
def test_what_always_holds_is_known(text: str) -> None:
    assert outcome(text, "node" if "gpus_read" in text else "gpu") == "always"


@pytest.mark.parametrize(
    "text",
    [
        "ofu > 15",
        "sm_clock < 1980",
        "sm_clock == 1980",
        "temperature > 85000",
        "count(ofu, 10m) < 0",
        "rate(throttle_time:thermal, 5m) > 10",
        "gpu_util < 0",
        "peers.count(ofu) == 0",
        "peers.sum(gpu_util) < -1",
        "avg(gpu_util, 5m) * 50% > 60%",
        "ofu_gap:stale == 0",
    ],
)
def test_what_never_holds_is_known(text: str) -> None:
    assert outcome(text) == "never"


@pytest.mark.parametrize(
    "text",
    [
        "ofu > 1",
        "ofu > 1.5",
        "gpu_util >= 1",
        "sm_clock == 0",
        "sm_clock > 0",
        "sm_clock < 1980e6",
        "sum(gpu_util, 5m) > 15",
        "increase(xid:79, 5m) > 1000",
        "count(ofu, 10m) > 1000",
        "ofu / gpu_util > 15",
        "ofu - gpu_util < 0",
        "peers.count(ofu < 5%) == 0",
        "sm_clock / reference_clock < 90%",
        "energy > 1e12",
        "temperature < -10",
        "ofu_gap:stale == 1",
        "gpu_quality:busy_proxy > 0",
    ],
)
def test_what_data_decide_is_left_to_them(text: str) -> None:
    assert outcome(text) is None


@pytest.mark.parametrize("text", ["ofu >= 0", "gpu_util <= 1", "0 <= count(ofu, 5m)"])
def test_the_end_of_a_range_is_a_question_for_data(text: str) -> None:
    assert outcome(text) == "at_edge"


def test_a_step_bounds_the_number_of_samples() -> None:
    stepped = Ranges(REGISTRY, DataLimits(), step_s=10.0)
    assert outcome("count(ofu, 10m) > 100", ranges=stepped) == "never"
    assert outcome("count(ofu, 10m) > 59", ranges=stepped) is None


FLEET = small_fleet(seed=3)
ENGINE = NumpyEngine(FLEET.store())


KINDS: tuple[EntityKind, ...] = ("gpu", "job", "node")


@given(st.sampled_from(KINDS).flatmap(lambda e: st.tuples(st.just(e), conditions(e))))
@examples(1)
def test_what_ranges_decide_is_what_data_say(case: tuple[EntityKind, object]) -> None:
    each, root = case
    if not isinstance(root, Compare):
        return
    found = Ranges(FLEET.registry, DataLimits(), slack=float("inf")).outcome(root)
    condition = Condition(Expression("", each, root))
    (judged,) = ENGINE.round([condition], FLEET.end_s).judgements
    if found:
        wrong = HOLDS if found == "never" else CLEAR
        assert wrong not in judged.verdicts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ofu < 5% and ofu > 10%", "never holds"),
        ("ofu < 5% and gpu_util > 1% and 5% <= ofu", "never holds"),
        ("ofu < 10% or ofu > 5%", "always holds"),
        ("ofu <= 5% and ofu >= 5%", ""),
        ("ofu < 10% and ofu > 5%", ""),
        ("ofu < 5% or ofu > 10%", ""),
        ("ofu < 5% and avg(ofu, 10m) > 10%", ""),
        ("ofu < 5% and ofu != 10%", ""),
    ],
)
def test_comparisons_of_one_number_meet_or_exclude_each_other(text: str, found: str) -> None:
    assert contradiction(parsed(text).root, RANGES)[: len(found) or None] == found


@pytest.mark.parametrize(
    ("expr", "clear", "where"),
    [
        ("ofu < 20%", "ofu > 15%", "ofu at 0.15 to 0.2"),
        ("avg(ofu, 10m) < 20% and gpu_util > 90%", "avg(ofu, 5m) > 15%", "ofu at 0.15 to 0.2"),
        ("temperature > 80", "temperature < 85", "temperature at 80 to 85"),
        ("ofu < 20%", "ofu > 25%", ""),
        ("ofu < 20%", "ofu >= 20%", ""),
        ("ofu < 20%", "gpu_util < 50%", ""),
        ("ofu < 20% and (ofu > 1% or gpu_util > 5%)", "ofu > 15%", ""),
        ("ofu < 50% * gpu_util", "ofu > 15%", ""),
        ("stddev(ofu, 5m) > 5%", "avg(ofu, 5m) > 1%", ""),
    ],
)
def test_a_clear_that_overlaps_is_found_where_it_is_sure(expr: str, clear: str, where: str) -> None:
    assert overlap(parsed(expr), parsed(clear), RANGES) == where


def test_a_clear_that_needs_the_condition_never_ends() -> None:
    assert never_clears(parsed("ofu < 20%"), parsed("ofu < 15%"), RANGES)
    assert not never_clears(parsed("ofu < 20%"), parsed("ofu < 25%"), RANGES)
    assert not never_clears(parsed("ofu < 20%"), parsed("avg(ofu, 5m) < 15%"), RANGES)
