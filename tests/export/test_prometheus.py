"""The page is what Prometheus reads, under the names that its OTLP receiver would give."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from otel_ofu.catalog.prometheus_names import metric_name
from otel_ofu.catalog.registry import Kind, load_registry
from otel_ofu.export.prometheus import PageOptions, PrometheusPage
from otel_ofu.model import Entity, Gap, GapReason, Observation, Window
from tests.export.samples import COMMON, START_S, gpu, seen

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def page(*observations: Observation, **options: object) -> PrometheusPage:
    made = PrometheusPage(load_registry(), COMMON, PageOptions(10.0, **options))  # type: ignore[arg-type]
    made.update(observations)
    return made


def series(made: PrometheusPage, now_s: float = START_S + 10) -> Series:
    """As Prometheus' own parser reads it; no sample may come twice."""
    found: Series = {}
    for family in text_string_to_metric_families(made.text(now_s)):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found
            found[key] = sample.value
    return found


@pytest.mark.parametrize(
    ("name", "unit", "kind", "expected"),
    [
        ("ofu.gpu.utilization", "1", "gauge", "ofu_gpu_utilization_ratio"),
        ("hw.energy", "J", "counter", "hw_energy_joules_total"),
        ("hw.power", "W", "gauge", "hw_power_watts"),
        ("hw.temperature", "Cel", "gauge", "hw_temperature_celsius"),
        ("hw.gpu.memory.usage", "By", "updown", "hw_gpu_memory_usage_bytes"),
        ("hw.status", "1", "updown", "hw_status"),
        ("hw.errors", "{error}", "counter", "hw_errors_total"),
        ("ofu.gpu.flop.rate", "{flop}/s", "gauge", "ofu_gpu_flop_rate_per_second"),
        ("x.io", "By/s", "gauge", "x_io_bytes_per_second"),
        ("ofu.gpu.clock.frequency", "Hz", "gauge", "ofu_gpu_clock_frequency_hertz"),
        ("process.seconds", "s", "gauge", "process_seconds"),
        ("a.total.count", "1", "counter", "a_count_total"),
        ("a..b-c", "", "gauge", "a_b_c"),
        ("1st", "", "gauge", "_1st"),
    ],
)
def test_names_follow_the_translation_of_prometheus(
    name: str, unit: str, kind: Kind, expected: str
) -> None:
    assert metric_name(name, unit, kind).metric == expected


def test_no_two_metrics_of_the_registry_meet_under_one_name() -> None:
    metrics = {m.name: m for m in load_registry().metrics.values()}
    names = [metric_name(m.name, m.unit, m.kind).metric for m in metrics.values()]
    assert len(set(names)) == len(names)


def test_a_gpu_is_told_by_its_identity_and_the_key_by_its_labels() -> None:
    found = series(page(seen(gpu(), 1, {"ofu": 0.4375, "xid:79": 2.0, "flop_rate": 1e15})))
    common = {("hw_id", "GPU-1"), ("ofu_gpu_sku", "h100-sxm5"), ("ofu_job_id", "77"),
              ("host_name", "node-1")}  # fmt: skip
    assert found == {
        ("ofu_gpu_utilization_ratio", frozenset(common)): 0.4375,
        ("hw_errors_total", frozenset(common | {("error_type", "xid_79"), ("hw_type", "gpu")})): 2,
        ("ofu_gpu_flop_rate_per_second", frozenset(common | {("ofu_precision", "bf16")})): 1e15,
    }


def test_labels_are_a_choice_but_the_identity_always_stays() -> None:
    job = Entity("job", "slurm/77", {"slurm.job.id": "77"})
    found = series(page(seen(gpu(), 1, {"ofu": 0.1}), seen(job, 1, {"ofu": 0.2}), labels=()))
    assert {labels: value for (_, labels), value in found.items()} == {
        frozenset({("hw_id", "GPU-1")}): 0.1,
        frozenset({("ofu_job_id", "slurm/77")}): 0.2,
    }


def test_each_metric_has_its_help_type_and_unit() -> None:
    text = page(
        seen(gpu("GPU-1"), 1, {"flop_count": 1.0, "power": 2.0} | {"ofu": 0.1}),
        seen(gpu("GPU-2"), 1, {"flop_count": 3.0, "ofu": 0.1}),
    ).text(START_S)
    assert text.count("# TYPE ofu_gpu_flop_count_total counter\n") == 1
    assert (
        "# TYPE ofu_gpu_utilization_ratio gauge\n# UNIT ofu_gpu_utilization_ratio ratio\n" in text
    )
    assert "# HELP ofu_gpu_utilization_ratio Overall FLOP Utilization" in text
    assert text.endswith("\n")


def test_a_series_that_is_gone_is_gone_at_once() -> None:
    made = page(seen(gpu("GPU-1"), 1, {"ofu": 0.1}), seen(gpu("GPU-2"), 1, {"ofu": 0.2}))
    assert len(series(made)) == 2
    made.update([seen(gpu("GPU-2"), 2, {"ofu": 0.3})])
    assert list(series(made).values()) == [0.3]
    made.update([])
    assert made.text(START_S) == ""


def test_a_value_that_a_round_brings_again_stays_until_no_round_does() -> None:
    made = page()
    for tick in range(7):  # every 10 s, of a page that is refreshed every minute
        made.update([seen(gpu(), 1, {"ofu": 0.1})], START_S + 10 * tick)
        assert list(series(made, START_S + 10 * tick).values()) == [0.1]
    assert list(series(made, START_S + 60 + 30).values()) == [0.1]
    assert series(made, START_S + 60 + 31) == {}


def test_what_a_round_brings_of_one_entity_in_several_observations_is_all_shown() -> None:
    made = page(seen(gpu(), 1, {"ofu": 0.1}), seen(gpu(), 1, {"finding_active:Low:warning": 1.0}))
    shown = {name: value for (name, _), value in series(made).items()}
    assert shown == {"ofu_gpu_utilization_ratio": 0.1, "ofu_finding_active": 1.0}
    made.update([seen(gpu(), 2, {"ofu": 0.2})])
    assert list(series(made).values()) == [0.2]


@pytest.mark.parametrize(("ticks", "shown"), [((1, 2), 0.2), ((2, 1), 0.1), ((1, 1), 0.2)])
def test_of_several_values_in_one_round_the_newest_is_shown_and_of_equals_the_later(
    ticks: tuple[int, int], shown: float
) -> None:
    first, second = (
        seen(gpu(), tick, {"ofu": v}) for tick, v in zip(ticks, (0.1, 0.2), strict=True)
    )
    assert list(series(page(first, second)).values()) == [shown]


def test_a_gap_hides_no_value_that_another_observation_of_the_round_has() -> None:
    gap = {"ofu": Gap(GapReason.FAILED)}
    made = page(seen(gpu(), 1, {"ofu": 0.1}))
    made.update(
        [
            seen(gpu(), 2, {"ofu": 0.2}),
            Observation(gpu(), Window(START_S, START_S + 20), {}, gap),
        ]
    )
    assert list(series(made).values()) == [0.2]


def test_what_was_not_observed_for_three_intervals_is_no_longer_shown() -> None:
    made = page(seen(gpu(), 1, {"ofu": 0.1}))
    assert len(series(made, START_S + 40.0)) == 1
    assert made.text(START_S + 40.1) == ""


@pytest.mark.parametrize(
    ("reason", "shown"), [(GapReason.NOT_READY, [0.1]), (GapReason.FAILED, [])]
)
def test_a_value_stays_only_while_the_next_one_is_not_due(
    reason: GapReason, shown: list[float]
) -> None:
    made = page(seen(gpu(), 1, {"ofu": 0.1}))
    for tick in (2, 3):
        window = Window(START_S, START_S + 10 * tick)
        made.update([Observation(gpu(), window, {}, {"ofu": Gap(reason)})])
    assert list(series(made, START_S + 30).values()) == shown
    assert made.text(START_S + 41) == ""


def test_values_that_are_no_numbers_and_keys_that_are_unknown_are_left_out() -> None:
    bad = {"ofu": math.nan, "sm_active": math.inf, "nonsense": 1.0, "sampler_duration": 1.0}
    assert page(seen(gpu(), 1, bad)).text(START_S) == ""


def test_an_empty_attribute_is_no_label_and_a_boolean_is_lower_case() -> None:
    entity = Entity("gpu", "GPU-1", {"a": "", "b": True})
    ((_, labels),) = series(page(seen(entity, 1, {"ofu": 0.1}), labels=("a", "b")))
    assert labels == {("hw_id", "GPU-1"), ("b", "true")}


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_any_text_and_any_number_come_back_as_they_were(text: str, value: float) -> None:
    clean = "".join(c for c in text if c == "\n" or c.isprintable())
    entity = Entity("gpu", "GPU-1", {"odd": clean})
    ((_, labels),) = (found := series(page(seen(entity, 1, {"ofu": value}), labels=("odd",))))
    assert dict(labels).get("odd", "") == clean
    assert list(found.values()) == [value]
