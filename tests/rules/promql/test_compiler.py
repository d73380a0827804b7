"""Conditions as PromQL: what the text is, and what it is not."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from prometheus_client.parser import text_string_to_metric_families

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.prometheus import PageOptions, PrometheusPage
from otel_ofu.model import Entity, EntityKind, Observation, Window
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.syntax import (
    And,
    Boolean,
    Compare,
    DataLimits,
    Expression,
    FlagCondition,
    Latest,
    Numeric,
    walk,
)
from otel_ofu.rules.promql.compiler import (
    MAX_CHARACTERS,
    NOTHING,
    alert_query,
)
from otel_ofu.rules.promql.samples import NotInPromqlError
from otel_ofu.rules.promql.vectors import CompilerSettings, duration, quoted
from tests.rules.promql.queries import value_query, verdict_query
from tests.rules.trees import conditions

REGISTRY = load_registry()
GPU = "max by (hw_id, ofu_job_id, ofu_gpu_sku, host_name)"
OFU = "ofu_gpu_utilization_ratio"
SKUS = "(ofu_job_id, ofu_gpu_sku)"
SOME = 1.0  # a coverage that asks for every sample


def alert(text: str, each: EntityKind = "gpu", **given: float) -> str:
    limits = DataLimits(given.pop("min_coverage", 0.0), int(given.pop("min_peers", 1)))
    asked = CompilerSettings(limits=limits, **given)  # type: ignore[arg-type]
    return alert_query(parse_condition(text, each, REGISTRY), REGISTRY, asked)


def verdict(text: str, each: EntityKind = "gpu") -> str:
    asked = CompilerSettings(limits=DataLimits(0.0, 1))
    return verdict_query(parse_condition(text, each, REGISTRY), REGISTRY, asked)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("avg(ofu, 10m) < 15%", f"{GPU} (avg_over_time({OFU}[10m])) < 0.15"),
        ("ofu >= 1", f"{GPU} (last_over_time({OFU}[1m10s])) >= 1"),
        ("max(ofu, 90s offset 1h) > 1", f"{GPU} (max_over_time({OFU}[1m30s] offset 1h)) > 1"),
        (
            "quantile(0.95, ofu, 1m) > 1",
            f"{GPU} (quantile_over_time(0.95, {OFU}[1m])) > 1",
        ),
        ("stddev(ofu, 1m) > 1", f"{GPU} (stddev_over_time({OFU}[1m])) > 1"),
        ("abs(last(ofu, 1m)) > 1", f"abs({GPU} (last_over_time({OFU}[1m]))) > 1"),
        ("-ofu < 0", f"(-{GPU} (last_over_time({OFU}[1m10s]))) < 0"),
        (
            "1 / ofu > 2",
            f"(1 / ({GPU} (last_over_time({OFU}[1m10s])) != 0)) > 2",
        ),
    ],
)
def test_functions_and_operators(text: str, expected: str) -> None:
    assert alert(text) == expected


def test_a_labelled_metric_is_told_apart_by_all_its_labels() -> None:
    assert 'hw_gpu_utilization_ratio{hw_gpu_task="encoder",hw_type="gpu"}' in alert("enc_util > 0")
    text = alert("throttled:sw_power_cap > 0")
    assert '{ofu_throttle_reason="sw_power_cap"}[' in text


def test_enough_samples_are_a_part_of_the_value() -> None:
    text = alert("avg(ofu, 10m) < 15%", min_coverage=0.5)
    window = f"{OFU}[10m]"
    assert text == f"{GPU} (avg_over_time({window}) and count_over_time({window}) >= 30) < 0.15"


@pytest.mark.parametrize(("coverage", "needed"), [(0.5, 3), (0.51, 4), (0.7, 5), (1.0, 6)])
def test_the_needed_samples_are_whole(coverage: float, needed: int) -> None:
    assert f">= {needed})" in alert("avg(ofu, 1m) < 1", min_coverage=coverage)


def test_counts_and_last_values_need_no_coverage() -> None:
    assert "count_over_time" not in alert("last(ofu, 10m) < 1", min_coverage=SOME)
    assert ">=" not in alert("count(ofu, 10m) < 1", min_coverage=SOME)


def test_a_count_of_nothing_is_zero_for_who_is_there() -> None:
    text = alert("count(ofu, 5m) < 3")
    assert re.fullmatch(r"\(.*count_over_time.* or \(group by .*\[1h\]\)\) \* 0\)\) < 3", text)


def test_logic_reads_as_it_was_written() -> None:
    a, b = alert("ofu < 1"), alert("gpu_util > 2")
    assert alert("ofu < 1 and gpu_util > 2") == f"({a}) and ({b})"
    assert alert("ofu < 1 or gpu_util > 2") == f"({a}) or ({b})"
    not_a, not_b = alert("ofu >= 1"), alert("gpu_util <= 2")
    assert alert("not ofu < 1") == not_a
    assert alert("not (ofu < 1 and gpu_util > 2)") == f"({not_a}) or ({not_b})"
    assert alert("not not ofu < 1") == a


def test_a_verdict_is_one_zero_or_not_there() -> None:
    assert verdict("ofu < 1") == alert("ofu < 1").replace(" < ", " < bool ")
    assert verdict("not ofu < 1") == f"1 - ({verdict('ofu < 1')})"
    both = verdict("ofu < 1 and gpu_util > 2")
    holds, fails = alert("ofu < 1 and gpu_util > 2"), alert("ofu >= 1 or gpu_util <= 2")
    labels = GPU.removeprefix("max by ")
    assert both == f"group by {labels} ({holds}) or (group by {labels} ({fails}) * 0)"


def test_peers_share_job_and_model_and_are_many() -> None:
    text = alert("ofu < 90% * peers.median(ofu)", min_peers=4)
    value = f'{GPU} (last_over_time({OFU}{{ofu_job_id!=""}}[1m10s]))'
    median = f"quantile by {SKUS} (0.5, {value})"
    enough = f"count by {SKUS} ({value}) >= 4"
    own = f"{GPU} (last_over_time({OFU}[1m10s]))"
    assert text == f"{own} < on {SKUS} group_left () (0.9 * ({median} and ({enough})))"


def test_the_median_distance_is_to_the_own_group() -> None:
    value = f'{GPU} (last_over_time({OFU}{{ofu_job_id!=""}}[1m10s]))'
    median = f"quantile by (ofu_job_id) (0.5, {value})"
    distance = f"abs({value} - on (ofu_job_id) group_left () {median})"
    assert alert("gpus.mad(ofu) > 1", "job") == f"quantile by (ofu_job_id) (0.5, {distance}) > 1"


def test_a_condition_on_a_group_is_said_of_each_gpu() -> None:
    text = alert("peers.count(ofu < 5%) > 2")
    assert text.endswith("group by (hw_id, ofu_job_id, ofu_gpu_sku, host_name) " + PRESENT)
    assert f"on {SKUS} group_right ()" in text


PRESENT = (
    '(last_over_time({__name__=~"ofu_gpu_utilization_ratio|ofu_gpu_gap_ratio|'
    'hw_gpu_utilization_ratio|hw_power_watts"}[1h]))'
)


def test_the_gpus_of_a_node_are_counted_by_condition() -> None:
    value = f'{GPU} (last_over_time({OFU}{{host_name!=""}}[1m10s]))'
    expected = f"sum by (host_name) ({value} < bool 0.05) > 3"
    assert alert("gpus.count(ofu < 5%) > 3", "node") == expected


def test_a_count_of_no_values_is_nothing_a_condition_of_none_unknown() -> None:
    value = f'{GPU} (last_over_time({OFU}{{host_name!=""}}[1m10s]))'
    there = PRESENT.replace("}[1h]", ',host_name!=""}[1h]')
    counted = f"count by (host_name) ({value}) or (group by (host_name) {there} * 0)"
    assert alert("gpus.count(ofu) == 0", "node") == f"({counted}) == 0"
    assert " or " not in alert("gpus.count(ofu < 5%) == 0", "node")
    assert alert("gpus.count(ofu / 0) == 0", "node") == f"(group by (host_name) {there} * 0) == 0"
    assert " or " not in alert("peers.count(ofu) > 9")


def test_an_increase_is_what_each_sample_gained() -> None:
    text = alert("increase(xid:79, 10m) > 0")
    x = 'hw_errors_total{error_type="xid_79",hw_type="gpu"}'
    now, before = f"last_over_time({x}[10s])", f"last_over_time({x}[5m] offset 10s)"
    gained = f"({now} - ({before} <= {now} or {before} * 0))"
    assert text == f"{GPU} (sum_over_time({gained}[10m:10s])) > 0"
    assert "increase(" not in text


def test_a_rate_is_from_the_first_to_the_last_sample() -> None:
    text = alert("rate(energy, 1m offset 5m) > 0")
    assert text.count("[1m:10s] @ end() offset 5m") == 2
    assert "rate(" not in text


def test_windows_are_as_many_steps_as_the_store_looks_at() -> None:
    assert "[30s]" in alert("avg(ofu, 37s) < 1")
    assert "[50s] offset 20s" in alert("avg(ofu, 45s offset 25s) < 1")
    assert "[1m]" in alert("avg(ofu, 60s) < 1", step_s=15.0)
    assert alert("avg(ofu, 5s) < 1") == NOTHING
    assert alert("not avg(ofu, 5s) < 1") == NOTHING


def test_servers_that_count_the_start_of_a_window_get_shorter_ones() -> None:
    text = alert("avg(ofu, 10m) < 1 and increase(xid:79, 1m) > 0", closed_windows=True)
    ranges = set(re.findall(r"\[([^\]]*)\]", text))
    assert ranges == {"9m59s999ms", "59s999ms:10s", "9s999ms", "4m59s999ms"}


def test_constants_are_computed_here() -> None:
    assert alert("ofu < (2 + 3) * 10%") == alert("ofu < 50%")
    assert alert("ofu < 1 / 0") == NOTHING
    assert alert("ofu < 1e300 * 1e300") == NOTHING
    assert alert("1 > 2") == NOTHING
    assert alert("1 < 2").startswith("group by (hw_id")
    assert verdict("1 > 2").endswith("* 0) + 0")
    assert alert("1 > 2 or ofu < 1") == alert("ofu < 1")
    assert alert("1 > 2 and ofu < 1") == NOTHING
    assert alert("ofu / 0 > 1") == NOTHING


def test_values_of_parts_can_be_asked_for() -> None:
    whole = parse_condition("ofu < 2 * peers.avg(ofu)", "gpu", REGISTRY)
    assert isinstance(whole.root, Compare)
    text = value_query(whole, whole.root.right, REGISTRY, CompilerSettings())
    assert text.endswith(PRESENT)
    nothing = parse_condition("ofu / 0 > 1", "gpu", REGISTRY)
    assert isinstance(nothing.root, Compare)
    assert value_query(nothing, nothing.root.left, REGISTRY, CompilerSettings()) == NOTHING


def test_a_metric_that_nobody_exports_is_told() -> None:
    registry = load_registry()
    expression = Expression("", "gpu", FlagCondition("NO_SUCH"))
    if "flag" not in registry.metrics:
        with pytest.raises(NotInPromqlError, match="flag:NO_SUCH is not an exported metric"):
            alert_query(expression, registry, CompilerSettings())
    strange = Expression("", "gpu", Compare(next(iter(_LESS)), Latest("nonsense"), Latest("ofu")))
    with pytest.raises(NotInPromqlError, match="nonsense is not an exported metric"):
        alert_query(strange, registry, CompilerSettings())


_LESS = {
    node.comparator
    for node in walk(parse_condition("ofu < 1", "gpu", REGISTRY).root)
    if isinstance(node, Compare)
}


def test_what_would_be_too_long_is_told_and_not_sent() -> None:
    one = parse_condition("rate(energy, 1m) > 1", "gpu", REGISTRY).root
    assert isinstance(one, Boolean)
    many = Expression("", "gpu", And(tuple(one for _ in range(100))))
    with pytest.raises(NotInPromqlError, match=f"at most {MAX_CHARACTERS:,}"):
        alert_query(many, REGISTRY, CompilerSettings())


def test_a_number_is_no_condition() -> None:
    with pytest.raises(TypeError, match="not a condition"):
        alert_query(Expression("ofu", "gpu", Latest("ofu")), REGISTRY, CompilerSettings())


@given(conditions("gpu"))
def test_generated_conditions_are_whole_texts(root: Boolean) -> None:
    if any(isinstance(node, FlagCondition) for node in walk(root)):
        return
    for query in (alert_query, verdict_query):
        text = query(Expression("", "gpu", root), REGISTRY, CompilerSettings())
        assert list(_depths(text))[-1] == 0
        assert min(_depths(text)) == 0
        assert not re.search(r"nan|inf(?!o)|None|\[0s", text)


def _depths(text: str) -> Iterator[int]:
    depth = 0
    yield depth
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        yield depth


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (600, "10m"),
        (5400, "1h30m"),
        (599.999, "9m59s999ms"),
        (0.25, "250ms"),
        (0, "0s"),
        (30 * 86_400, "720h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_strings_are_quoted() -> None:
    assert quoted('a"b\\c\nd') == r'"a\"b\\c\nd"'


def _keys() -> Iterator[str]:
    for key, metric in REGISTRY.metrics.items():
        if metric.entity == "gpu" and metric.kind != "histogram":
            yield ":".join([key, *("power" for _ in metric.labels)])


@pytest.mark.parametrize("key", list(_keys()))
def test_a_selector_finds_the_series_of_the_page_and_no_other(key: str) -> None:
    """Every metric on one page: the selector of a key picks the one sample of that key."""
    values = {each: float(number) for number, each in enumerate(_keys())}
    labels = {"hw.id": "GPU-1", "ofu.job.id": "j", "ofu.gpu.sku": "s", "host.name": "n"}
    entity = Entity("gpu", "GPU-1/j", {**labels, "ofu.precision": "bf16"})
    page = PrometheusPage(REGISTRY, {}, PageOptions(10.0))
    page.update([Observation(entity, Window(0.0, 10.0), values)])
    node: Numeric = Latest(key)
    text = value_query(Expression("", "gpu", node), node, REGISTRY, CompilerSettings())
    found = re.search(r"last_over_time\((\w+)(?:\{(.*)\})?\[", text)
    assert found
    wanted = dict(re.findall(r'(\w+)="([^"]*)"', found[2] or ""))
    matches = [
        sample.value
        for family in text_string_to_metric_families(page.text(10.0))
        for sample in family.samples
        if sample.name == found[1] and wanted.items() <= sample.labels.items()
    ]
    assert matches == [values[key]]
