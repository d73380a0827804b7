"""Observations become OTLP as the registry says, and series end when they end."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.export.request import RequestLimits
from otel_ofu.model import Attribute, Entity, Gap, GapReason, Observation, Window
from tests.export.samples import COMMON, START_S, attributes, encoder, gpu, points, request, seen

NS = 1_000_000_000
NO_RECORDED_VALUE = 1


def test_a_resource_holds_common_and_entity_attributes_and_its_own_instance_id() -> None:
    (body,) = encoder().encode([seen(gpu(index=3, shared=True, clock=1.5e9), 1, {"ofu": 0.4})])
    (resource,) = request(body).resource_metrics
    assert attributes(resource.resource.attributes) == {
        "service.name": "otel-ofu",
        "host.name": "node-1",
        "hw.id": "GPU-1",
        "ofu.precision": "bf16",
        "ofu.gpu.sku": "h100-sxm5",
        "ofu.job.id": "77",
        "index": 3,
        "shared": True,
        "clock": 1.5e9,
        "service.instance.id": "GPU-1",
    }
    scope = resource.scope_metrics[0].scope
    assert (scope.name, scope.version) == ("otel_ofu", "1.2.3")


def test_jobs_and_nodes_are_their_own_instance_and_their_points_have_no_hw_id() -> None:
    job = Entity("job", "slurm/77", {"ofu.job.id": "77"})
    ((owner, _, point),) = points(encoder().encode([seen(job, 1, {"ofu": 1.0})]))
    assert owner == "slurm/77/77"
    assert "hw.id" not in attributes(point.attributes)


def test_a_gauge_has_its_window_end_and_no_start() -> None:
    ((_, name, point),) = points(encoder().encode([seen(gpu(), 1, {"ofu": 0.4375})]))
    assert name == "ofu.gpu.utilization"
    assert (point.as_double, point.flags) == (0.4375, 0)
    assert point.time_unix_nano == int(START_S + 10) * NS
    assert point.start_time_unix_nano == 0
    assert attributes(point.attributes) == {"hw.id": "GPU-1"}


def test_times_are_exact_to_the_microsecond() -> None:
    at = Observation(gpu(), Window(1.0, 1_700_000_000.123456), {"ofu": 0.4})
    ((_, _, point),) = points(encoder().encode([at]))
    assert point.time_unix_nano == 1_700_000_000_123_456_000


def test_a_counter_is_a_monotonic_cumulative_sum_with_its_start() -> None:
    made = encoder().encode([seen(gpu(), 1, {"flop_count": 5e15}, {"flop_count": START_S - 60})])
    (metric,) = request(made[0]).resource_metrics[0].scope_metrics[0].metrics
    assert (metric.name, metric.unit) == ("ofu.gpu.flop.count", "{flop}")
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == 2
    (point,) = metric.sum.data_points
    assert point.start_time_unix_nano == int(START_S - 60) * NS
    assert attributes(point.attributes) == {"hw.id": "GPU-1", "ofu.precision": "bf16"}


def test_a_counter_without_a_start_counts_from_the_agents_start_but_never_from_the_future() -> None:
    ((_, _, later),) = points(encoder().encode([seen(gpu(), 3, {"flop_count": 1.0})]))
    assert later.start_time_unix_nano == int(START_S) * NS
    ((_, _, replayed),) = points(encoder().encode([seen(gpu(), -9, {"flop_count": 1.0})]))
    assert replayed.start_time_unix_nano == replayed.time_unix_nano


def sent(made: MetricEncoder, tick: int, values: dict[str, float], start: float) -> list[float]:
    """The values that go out of a tick, of counters that all began `start` ticks after START_S."""
    starts_s = dict.fromkeys(values, START_S + 10 * start)
    made_points = points(made.encode([seen(gpu(), tick, values, starts_s)]))
    return [point.as_double for _, name, point in made_points if name == "hw.errors"]


def test_a_counter_that_begins_while_its_gpu_is_there_goes_out_with_a_0_at_its_start() -> None:
    made = encoder()
    made.encode([seen(gpu(), 1, {"ofu": 0.4})])
    seen_later = seen(gpu(), 3, {"xid:79": 2.0}, {"xid:79": START_S + 10})
    (_, _, zero), (_, _, two) = [p for p in points(made.encode([seen_later])) if "errors" in p[1]]
    assert (zero.as_double, two.as_double) == (0.0, 2.0)
    assert zero.time_unix_nano == zero.start_time_unix_nano == two.start_time_unix_nano
    assert zero.start_time_unix_nano == int(START_S + 10) * NS
    assert attributes(zero.attributes) == attributes(two.attributes)


def test_the_0_of_a_counter_goes_out_once_and_not_for_what_is_older_than_its_gpu() -> None:
    made = encoder()
    assert sent(made, 1, {"xid:79": 2.0}, start=0) == [2.0]
    assert sent(made, 2, {"xid:79": 2.0, "xid:31": 1.0}, start=1) == [2.0, 0.0, 1.0]
    made.encode([seen(gpu(), 3, {"ofu": 0.4})])
    assert sent(made, 4, {"xid:79": 2.0, "xid:31": 1.0}, start=1) == [2.0, 1.0]


def test_a_counter_that_was_reset_has_no_second_point_where_its_last_value_was() -> None:
    made = encoder()
    assert sent(made, 1, {"xid:79": 5.0}, start=0) == [5.0]
    made.encode([seen(gpu(), 2, {"xid:79": 6.0})])
    assert sent(made, 3, {"xid:79": 1.0}, start=2) == [1.0]


def test_a_series_that_is_not_in_a_repeated_window_ends_after_its_last_value() -> None:
    made = encoder()
    made.encode([seen(gpu(), 1, {"ofu": 0.4, "power": 500.0})])
    ((_, _, ended),) = [
        p for p in points(made.encode([seen(gpu(), 1, {"ofu": 0.4})])) if "power" in p[1]
    ]
    assert ended.flags == 1
    assert ended.time_unix_nano > int(START_S + 10) * NS


def test_an_updown_metric_is_a_sum_that_may_fall() -> None:
    registry = load_registry()
    key = next(k for k, m in registry.metrics.items() if m.kind == "updown" and m.entity == "gpu")
    (body,) = encoder().encode([seen(gpu(), 1, {key: 7.0})])
    (metric,) = request(body).resource_metrics[0].scope_metrics[0].metrics
    assert metric.WhichOneof("data") == "sum"
    assert not metric.sum.is_monotonic


def test_keys_of_one_name_share_a_metric_and_differ_in_their_attributes() -> None:
    (body,) = encoder().encode([seen(gpu(), 1, {"tensor_active": 0.4, "fp64_active": 0.0})])
    (metric,) = request(body).resource_metrics[0].scope_metrics[0].metrics
    assert [attributes(p.attributes)["ofu.pipe"] for p in metric.gauge.data_points] == [
        "tensor",
        "fp64",
    ]


def test_a_key_with_a_label_puts_it_on_the_point() -> None:
    ((_, name, point),) = points(encoder().encode([seen(gpu(), 1, {"xid:79": 2.0})]))
    assert name == "hw.errors"
    assert attributes(point.attributes)["error.type"] == "xid_79"


def test_values_that_are_no_numbers_do_not_leave() -> None:
    bad = {"ofu": math.nan, "tensor_active": math.inf, "sm_active": -math.inf, "sm_clock": 1e9}
    assert [name for _, name, _ in points(encoder().encode([seen(gpu(), 1, bad)]))] == [
        "ofu.gpu.clock.frequency"
    ]
    assert encoder().encode([seen(gpu(), 1, {"ofu": math.nan})]) == []


def test_zero_is_a_value() -> None:
    ((_, _, point),) = points(encoder().encode([seen(gpu(), 1, {"ofu": 0.0})]))
    assert point.WhichOneof("value") == "as_double"


def test_unknown_keys_are_counted_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    made = encoder()
    for tick in (1, 2):
        odd = {"nonsense": 1.0, "xid": 1.0, "sampler_duration": 1.0, "ofu": 0.4}
        assert [n for _, n, _ in points(made.encode([seen(gpu(), tick, odd)]))] == [
            "ofu.gpu.utilization"
        ]
    assert made.unknown_keys == 6
    assert len(caplog.records) == 1


def test_an_entity_that_is_gone_ends_each_of_its_series_once_just_after_its_last_value() -> None:
    made = encoder()
    made.encode([seen(gpu(), 1, {"ofu": 0.4, "flop_count": 1.0}, {"flop_count": START_S})])
    ended = points(made.encode([]))
    assert [(name, p.flags, p.WhichOneof("value")) for _, name, p in ended] == [
        ("ofu.gpu.utilization", NO_RECORDED_VALUE, None),
        ("ofu.gpu.flop.count", NO_RECORDED_VALUE, None),
    ]
    assert {p.time_unix_nano for _, _, p in ended} == {int(START_S + 10) * NS + 1_000_000}
    assert ended[1][2].start_time_unix_nano == int(START_S) * NS
    assert attributes(ended[1][2].attributes) == {"hw.id": "GPU-1", "ofu.precision": "bf16"}
    assert made.encode([]) == []


def test_a_gpu_that_changes_its_job_ends_the_old_series_before_the_new_ones_begin() -> None:
    made = encoder()
    made.encode([seen(gpu(job="1"), 1, {"ofu": 0.4})])
    old, new = points(made.encode([seen(gpu(job="2"), 2, {"ofu": 0.5})]))
    assert (old[0], old[2].flags) == ("GPU-1/1", NO_RECORDED_VALUE)
    assert (new[0], new[2].as_double) == ("GPU-1/2", 0.5)
    assert old[2].time_unix_nano < new[2].time_unix_nano


def test_what_is_left_of_an_ended_gpu_goes_on_and_its_other_series_end_before_the_next_job() -> (
    None
):
    made = encoder()
    seconds = {"gpu_time_allocated": 10.0}
    made.encode([seen(gpu(job="1"), 1, {"ofu": 0.4, **seconds})])
    sent = points(
        made.encode([seen(gpu(job="2"), 2, {"ofu": 0.5})], [seen(gpu(job="1"), 2, seconds)])
    )
    kept, old, new = sent
    assert (kept[0], kept[2].as_double, kept[2].flags) == ("GPU-1/1", 10.0, 0)
    assert attributes(kept[2].attributes) == {"hw.id": "GPU-1", "ofu.job.id": "1"}
    assert (old[0], old[1], old[2].flags) == (
        "GPU-1/1",
        "ofu.gpu.utilization",
        NO_RECORDED_VALUE,
    )
    assert old[2].time_unix_nano == int(START_S + 10) * NS + 1_000_000
    assert (new[0], new[2].as_double) == ("GPU-1/2", 0.5)


def test_two_gateways_have_series_of_their_own_for_a_job() -> None:
    job = Entity("job", "77", {"ofu.job.id": "77", "ofu.job.scope": "fleet"})
    (body,) = encoder().encode([seen(job, 1, {"job_ofu": 0.4})])
    (resource,) = request(body).resource_metrics
    found = attributes(resource.resource.attributes)
    assert found["service.instance.id"] == "77/node-1"
    assert "host.name" not in found


def test_an_attribute_that_changes_makes_another_resource_and_ends_the_first() -> None:
    made = encoder()
    made.encode([seen(gpu(), 1, {"ofu": 0.4})])
    changed = points(made.encode([seen(gpu(**{"ofu.precision": "fp8"}), 2, {"ofu": 0.4})]))
    assert [p.flags for _, _, p in changed] == [NO_RECORDED_VALUE, 0]


def test_a_value_that_turns_into_a_gap_ends_its_series_once_until_it_is_back() -> None:
    made = encoder()
    made.encode([seen(gpu(), 1, {"ofu": 0.4, "sm_active": 0.9})])
    flags = []
    for tick, ofu in ((2, None), (3, None), (4, 0.3)):
        values = {"sm_active": 0.9} | ({} if ofu is None else {"ofu": ofu})
        sent = points(made.encode([seen(gpu(), tick, values)]))
        flags.append([(p.flags, p.time_unix_nano) for _, n, p in sent if n.startswith("ofu.gpu.u")])
    assert flags == [
        [(NO_RECORDED_VALUE, int(START_S + 20) * NS)],
        [],
        [(0, int(START_S + 40) * NS)],
    ]


def test_a_value_that_is_merely_not_due_yet_does_not_end_its_series() -> None:
    made = encoder()
    made.encode([seen(gpu(), 1, {"ofu": 0.4})])
    window = Window(START_S + 10, START_S + 20)
    waiting = Observation(gpu(), window, {}, {"ofu": Gap(GapReason.NOT_READY)})
    assert made.encode([waiting]) == []
    assert made.encode([waiting]) == []
    lost = Observation(gpu(), window, {}, {"ofu": Gap(GapReason.STALE)})
    assert [p.flags for _, _, p in points(made.encode([lost]))] == [NO_RECORDED_VALUE]


def test_an_entity_with_gaps_alone_ends_and_says_nothing_more() -> None:
    made = encoder()
    made.encode([seen(gpu(), 1, {"ofu": 0.4})])
    lost = Observation(gpu(), Window(START_S, START_S + 20), {}, {"ofu": Gap(GapReason.FAILED)})
    assert [p.flags for _, _, p in points(made.encode([lost]))] == [NO_RECORDED_VALUE]
    assert made.encode([lost]) == []


def test_two_observations_of_an_equal_entity_share_a_resource_and_lose_nothing() -> None:
    halves = [seen(gpu(), 1, {"ofu": 0.4}), seen(gpu(), 1, {"sm_active": 0.9})]
    (body,) = encoder().encode(halves)
    assert len(request(body).resource_metrics) == 1
    assert body.points == 2
    two_windows = [seen(gpu(), 1, {"ofu": 0.4}), seen(gpu(), 2, {"ofu": 0.5})]
    assert [p.as_double for _, _, p in points(encoder().encode(two_windows))] == [0.4, 0.5]


def test_of_two_values_for_the_same_instant_the_later_one_counts() -> None:
    twice = [seen(gpu(), 1, {"ofu": 0.4}), seen(gpu(), 1, {"ofu": 0.5})]
    assert [p.as_double for _, _, p in points(encoder().encode(twice))] == [0.5]


def test_jobs_that_come_and_go_leave_nothing_behind() -> None:
    made = encoder()
    for tick in range(2000):
        made.encode([seen(gpu(job=str(tick)), tick, {"ofu": 0.4, f"xid:{tick}": 1.0})])
    assert len(made._states) == 1
    made.encode([])
    assert made._states == {}


def test_label_values_that_churn_do_not_pile_up() -> None:
    made = encoder()
    for first in range(0, 12_000, 1000):
        made.encode([seen(gpu(), 1, {f"xid:{first + i}": 1.0 for i in range(1000)})])
    assert len(made._plans._plans) <= 4096


def test_requests_stay_within_the_limits_and_keep_the_order() -> None:
    crowd = [seen(gpu(f"GPU-{i}"), 1, {"ofu": i, "sm_active": 0.5}) for i in range(10)]
    bodies = encoder(RequestLimits(max_points=6)).encode(crowd)
    assert [b.points for b in bodies] == [6, 6, 6, 2]
    sent = [p.as_double for _, n, p in points(bodies) if n == "ofu.gpu.utilization"]
    assert sent == list(range(10))
    small = encoder(RequestLimits(max_bytes=2000)).encode(crowd)
    assert len(small) > 1
    assert all(len(b.raw()) <= 2000 for b in small)


def test_one_resource_beyond_the_limit_goes_alone() -> None:
    crowd = [seen(gpu(f"GPU-{i}"), 1, {"ofu": 0.1, "sm_active": 0.5}) for i in range(3)]
    assert [b.points for b in encoder(RequestLimits(max_points=1)).encode(crowd)] == [2, 2, 2]


def test_descriptions_are_optional() -> None:
    def description(*, wanted: bool) -> str:
        options = EncoderOptions(START_S, descriptions=wanted)
        made = MetricEncoder(load_registry(), COMMON, options)
        (body,) = made.encode([seen(gpu(), 1, {"ofu": 0.1})])
        return request(body).resource_metrics[0].scope_metrics[0].metrics[0].description

    assert description(wanted=True).startswith("Overall FLOP Utilization")
    assert description(wanted=False) == ""


KEYS = ("ofu", "sm_active", "flop_count", "xid:79")
ticks = st.lists(
    st.dictionaries(
        st.sampled_from(["1", "2", "3"]),
        st.dictionaries(st.sampled_from(KEYS), st.floats(), max_size=4),
    ),
    max_size=6,
)


@given(ticks)
def test_each_series_alternates_between_values_and_a_single_end(
    history: list[dict[str, dict[str, float]]],
) -> None:
    made = encoder()
    state: dict[tuple[str, str], str] = {}
    for tick, jobs in enumerate([*history, {}], start=1):
        sent = made.encode([seen(gpu(job=j), tick, values) for j, values in jobs.items()])
        expected = {
            (f"GPU-1/{j}", k)
            for j, values in jobs.items()
            for k, value in values.items()
            if math.isfinite(value)
        }
        names = {load_registry().metric(k).name: k for k in KEYS}
        valued = set()
        for owner, name, point in points(sent):
            series = (owner, names[name])
            if point.flags:
                assert state.pop(series) == "live"
            else:
                valued.add(series)
                state[series] = "live"
        assert valued == expected == set(state)


def test_attributes_keep_their_types() -> None:
    kinds: dict[str, Attribute] = {"a": True, "b": 1, "c": 1.0, "d": "1"}
    (body,) = encoder().encode([seen(Entity("gpu", "GPU-1", kinds), 1, {"ofu": 0.1})])
    pairs = request(body).resource_metrics[0].resource.attributes
    assert {p.key: p.value.WhichOneof("value") for p in pairs if p.key in kinds} == {
        "a": "bool_value",
        "b": "int_value",
        "c": "double_value",
        "d": "string_value",
    }


def test_text_that_is_no_proper_unicode_does_not_stop_a_tick() -> None:
    (body,) = encoder().encode([seen(gpu(name="job-\udcff"), 1, {"ofu": 0.1})])
    assert attributes(request(body).resource_metrics[0].resource.attributes)["name"] == "job-?"
