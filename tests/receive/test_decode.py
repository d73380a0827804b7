"""What comes out of requests: the entities and values of those who sent them, or reasons."""

from __future__ import annotations

import math
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Histogram,
    HistogramDataPoint,
    Metric,
    Summary,
    SummaryDataPoint,
)

from otel_ofu.catalog.registry import load_registry
from otel_ofu.mfu import built_in_names
from otel_ofu.model import Attribute, Entity
from otel_ofu.receive.decode import Decoder
from otel_ofu.receive.intake import Intake
from otel_ofu.receive.points import MalformedError
from tests.properties import examples
from tests.receive.bodies import T0, as_json, body, counter, gauge, gpu, point, seen, ticks, values

NOW = T0 + 1000.0
GPU: dict[str, Attribute] = {"hw.id": "GPU-1", "host.name": "node-1"}
ID = {"hw.id": "GPU-1"}

Told = dict[tuple[str, str, str, float], float]


def decoder(max_entities: int = 200_000) -> Decoder:
    return Decoder(load_registry(), built_in_names(), max_entities)


def told(intake: Intake) -> Told:
    """By kind, entity, key and time."""
    return {
        (entity.kind, entity.id, key, round(batch.time_s, 6)): value
        for batch in intake.batches
        for entity, row in zip(batch.entities, batch.values.tolist(), strict=True)
        for key, value in zip(batch.keys.keys, row, strict=True)
        if not math.isnan(value)
    }


def entities(intake: Intake) -> list[Entity]:
    return [entity for batch in intake.batches for entity in batch.entities]


def only_value(intake: Intake) -> float:
    (value,) = told(intake).values()
    return value


def test_what_an_agent_sends_becomes_its_entities_again() -> None:
    agent = ticks([[seen(gpu(n), tick) for n in range(8)] for tick in (1, 2, 3)])
    ours = decoder()
    for tick, raw in enumerate(agent, 1):
        intake = ours.decode(raw, NOW)
        assert {e.id: e for e in entities(intake)} == {e.id: e for e in map(gpu, range(8))}
        assert told(intake) == {
            ("gpu", gpu(n).id, key, T0 + 10.0 * tick): value
            for n in range(8)
            for key, value in values(tick).items()
        }
        assert intake.accepted == 8 * len(values())
        assert str(intake.rejected) == ""


def test_every_key_of_the_registry_survives_the_way() -> None:
    registry = load_registry()
    for kind, entity in (
        ("gpu", gpu(1)),
        ("job", Entity("job", "7", {"ofu.job.id": "7", "host.name": "node-1"})),
    ):
        metrics = {k: m for k, m in registry.metrics.items() if m.entity == kind}
        given_ = {
            ":".join([key, *("79" for _ in metric.labels)]): max(0.5, metric.range[0] or 0.0)
            for key, metric in metrics.items()
        }
        (raw,) = ticks([[seen(entity, 1, given_)]])
        intake = decoder().decode(raw, NOW)
        assert told(intake) == {(kind, entity.id, k, T0 + 10.0): v for k, v in given_.items()}
        assert entities(intake)[0] == entity


changes = st.lists(
    st.dictionaries(
        st.sampled_from(sorted(values())), st.floats(-0.5, 2.0) | st.just(math.nan), max_size=12
    ),
    min_size=1,
    max_size=5,
)


@given(changes)
def test_a_known_layout_is_read_as_if_it_were_new(rounds: list[dict[str, float]]) -> None:
    """Whatever changes from request to request: values, gaps, ends of series."""
    warm = decoder()
    for raw in ticks([[seen(gpu(1), t, v), seen(gpu(2), t, v)] for t, v in enumerate(rounds, 1)]):
        for _ in range(2):
            ours, fresh = warm.decode(raw, NOW), decoder().decode(raw, NOW)
            assert told(ours) == told(fresh)
            assert ours.accepted == fresh.accepted
            assert str(ours.rejected) == str(fresh.rejected)


def test_the_same_length_is_not_the_same_layout() -> None:
    ours = decoder()
    for pipe, key in (
        ("tensor", "tensor_active"),
        ("fp64", "fp64_active"),
        ("fp32", "fp32_active"),
    ):
        metric = gauge("ofu.gpu.pipe.utilization", point(0.5, {**ID, "ofu.pipe": pipe}))
        intake = ours.decode(body(GPU, metric), NOW)
        assert [k for _, _, k, _ in told(intake)] == [key]


def test_json_says_the_same_as_protobuf() -> None:
    rounds = [[seen(gpu(n), t) for n in (1, 2)] for t in (1, 2)]
    for raw in ticks([*rounds, []]):
        protobuf, json = decoder().decode(raw, NOW), decoder().decode_json(as_json(raw), NOW)
        assert told(json) == told(protobuf)
        assert json.ended == protobuf.ended
        assert json.accepted == protobuf.accepted


def test_numbers_of_json_may_be_strings_and_null_is_nothing() -> None:
    raw = b"""{"resourceMetrics": [{"resource": {"attributes": [
        {"key": "hw.id", "value": {"stringValue": "GPU-1"}},
        {"key": "a", "value": {"intValue": "7"}}, {"key": "b", "value": {"boolValue": true}},
        {"key": "c", "value": {"arrayValue": {"values": []}}}, {"key": "d", "value": null}],
        "droppedAttributesCount": 0, "someday": {"x": [1, {"y": null}]}},
      "scopeMetrics": [{"scope": null, "metrics": [
        {"name": "ofu.gpu.utilization", "description": null, "gauge": {"dataPoints": [
          {"timeUnixNano": "1700000000000000000", "asDouble": "0.25", "attributes": null}]}},
        {"name": "hw.gpu.memory.usage", "sum": {"aggregationTemporality": 2, "dataPoints": [
          {"timeUnixNano": 1700000000000000000, "asInt": "5",
           "attributes": [{"key": "hw.type", "value": {"stringValue": "gpu"}}]}]}},
        {"name": "ofu.gpu.sm.utilization", "gauge": {"dataPoints": [
          {"timeUnixNano": "1700000000000000000", "asDouble": "NaN"}]}}]}]}]}"""
    intake = decoder().decode_json(raw, NOW)
    assert told(intake) == {
        ("gpu", "GPU-1", "ofu", T0): 0.25,
        ("gpu", "GPU-1", "mem_used", T0): 5.0,
    }
    assert entities(intake)[0].attributes == {"hw.id": "GPU-1", "a": 7, "b": True}
    assert str(intake.rejected) == "1 point: out of range, or no number (sm_active)"


def with_point(raw: bytes) -> bytes:
    return (
        b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"gauge": {"dataPoints": [%s]}}]}]}]}'
        % raw
    )


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"resourceMetrics": {}}',
        b'{"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": 3}]}]}]}',
        with_point(b'{"timeUnixNano": "x"}'),
        with_point(b'{"timeUnixNano": -1}'),
        with_point(b'{"timeUnixNano": 99999999999999999999}'),
        with_point(b'{"asDouble": "x"}'),
        with_point(b'{"asInt": "1.5"}'),
        b'{"a": ' + b"[" * 100_000,
    ],
)
def test_json_that_is_no_request_is_told_apart(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        decoder().decode_json(raw, NOW)


def test_an_empty_request_is_fine() -> None:
    for intake in (decoder().decode(b"", NOW), decoder().decode_json(b"{}", NOW)):
        assert (intake.accepted, intake.rejected.points, intake.batches) == (0, 0, [])


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        (gauge("loss", point(1.0)), "unknown metric (loss)"),
        (
            gauge("ofu.gpu.pipe.utilization", point(0.5, {"ofu.pipe": "new"})),
            "no ofu.gpu.pipe.utilization has these attributes (ofu.gpu.pipe.utilization)",
        ),
        (
            gauge("ofu.gpu.utilization", point(0.5, {"rank": 3})),
            "attributes that this metric does not have (ofu.gpu.utilization)",
        ),
        (
            counter("hw.energy", point(1.0, {"hw.type": "gpu"}), temporality=1),
            "delta temporality is not supported; send cumulative sums (hw.energy)",
        ),
        (
            gauge("hw.energy", point(1.0, {"hw.type": "gpu"})),
            "a counter was expected, not a gauge (hw.energy)",
        ),
        (gauge("ofu.gpu.utilization", point(-0.5)), "out of range, or no number (ofu)"),
        (gauge("ofu.gpu.utilization", point(math.nan)), "out of range, or no number (ofu)"),
        (gauge("ofu.gpu.utilization", point(math.inf)), "out of range, or no number (ofu)"),
        (gauge("ofu.gpu.utilization", point(None)), "no value (ofu.gpu.utilization)"),
        (gauge("ofu.gpu.utilization", point(0.5, time_s=0.0)), "no time (ofu.gpu.utilization)"),
        (gauge("ofu.gpu.utilization", point(0.5, time_s=NOW + 61.0)), "a time in the future (ofu)"),
        (
            gauge("ofu.job.utilization", point(0.5)),
            "the resource does not identify its job (ofu.job.utilization)",
        ),
        (
            Metric(name="h", histogram=Histogram(data_points=[HistogramDataPoint()])),
            "points of this form are not supported: histogram (h)",
        ),
        (
            Metric(
                name="e",
                exponential_histogram=ExponentialHistogram(
                    data_points=[ExponentialHistogramDataPoint()]
                ),
            ),
            "points of this form are not supported: exponential histogram (e)",
        ),
        (
            Metric(name="s", summary=Summary(data_points=[SummaryDataPoint()])),
            "points of this form are not supported: summary (s)",
        ),
        (Metric(name="n"), "a metric without points (n)"),
    ],
)
def test_what_cannot_be_used_is_counted_with_its_reason(metric: Metric, reason: str) -> None:
    ours = decoder()
    raw = body(GPU, metric, gauge("ofu.gpu.sm.utilization", point(0.5)))
    for _ in range(2):
        intake = ours.decode(raw, NOW)
        assert str(intake.rejected) == f"1 point: {reason}"
        assert told(intake) == {("gpu", "GPU-1", "sm_active", T0): 0.5}
    assert str(decoder().decode_json(as_json(raw), NOW).rejected) == f"1 point: {reason}"


def test_a_value_that_was_good_once_may_be_wrong_the_next_time() -> None:
    ours = decoder()
    for value, time_s, good in (
        (0.5, T0, True),
        (2e308 * 10, T0, False),
        (-1.0, T0, False),
        (0.5, NOW + 1e6, False),
        (0.75, T0 + 1, True),
    ):
        raw = body(GPU, gauge("ofu.gpu.utilization", point(value, time_s=time_s)))
        intake = ours.decode(raw, NOW)
        assert (intake.accepted, intake.rejected.points) == ((1, 0) if good else (0, 1))


def test_unknown_names_are_counted_for_a_bounded_number_of_them() -> None:
    ours = decoder()
    for number in range(1000):
        ours.decode(body(GPU, gauge(f"name-{number}" * 50, point(1.0))), NOW)
    counts = ours.unknown.counts
    assert sum(counts.values()) == 1000
    assert len(counts) <= 257
    assert max(map(len, counts)) <= 80


def test_integers_and_doubles_are_both_numbers() -> None:
    typed = {"hw.type": "gpu"}
    used, limit = (
        gauge("hw.gpu.memory.usage", point(5, typed)),
        gauge("hw.gpu.memory.limit", point(6.5, typed)),
    )
    ours = decoder()
    for _ in range(2):
        found = told(ours.decode(body(GPU, used, limit), NOW))
        assert sorted(found.values()) == [5.0, 6.5]


def test_a_gpu_may_be_named_by_its_points_alone() -> None:
    ours = decoder()
    metric = gauge(
        "ofu.gpu.utilization", *(point(0.1 * n, {"hw.id": f"GPU-{n}"}) for n in (1, 2, 3))
    )
    for _ in range(2):
        intake = ours.decode(body({"host.name": "node-1", "ofu.job.id": "7"}, metric), NOW)
        assert [e for _, e, _, _ in told(intake)] == ["GPU-1/7", "GPU-2/7", "GPU-3/7"]
        assert entities(intake)[1].attributes == {
            "hw.id": "GPU-2",
            "host.name": "node-1",
            "ofu.job.id": "7",
        }


def test_points_of_one_gpu_may_speak_of_different_times() -> None:
    ours = decoder()
    points = (point(0.5, time_s=T0), point(0.75, time_s=T0 + 10))
    for _ in range(2):
        intake = ours.decode(body(GPU, gauge("ofu.gpu.utilization", *points)), NOW)
        assert told(intake) == {
            ("gpu", "GPU-1", "ofu", T0): 0.5,
            ("gpu", "GPU-1", "ofu", T0 + 10): 0.75,
        }


def test_resource_attributes_that_a_collector_copied_to_points_are_no_news() -> None:
    resource = {**GPU, "ofu.job.id": "7", "ofu.precision": "bf16"}
    metric = gauge("ofu.gpu.utilization", point(0.5, resource))
    assert told(decoder().decode(body(resource, metric), NOW)) == {
        ("gpu", "GPU-1/7", "ofu", T0): 0.5
    }


def test_the_specific_error_comes_before_the_general_one() -> None:
    points = [
        point(1, {"hw.type": "gpu", "error.type": kind})
        for kind in ("corrected", "pcie_replay", "xid_79")
    ]
    intake = decoder().decode(body(GPU, counter("hw.errors", *points)), NOW)
    assert {key for _, _, key, _ in told(intake)} == {"ecc_corrected", "pcie_replays", "xid:79"}


def test_an_agents_own_metrics_are_passed_over_in_silence() -> None:
    own = counter("ofu.sampler.missed", point(1, {"ofu.source": "nvml", "error.type": "failed"}))
    duration = Metric(
        name="ofu.sampler.duration", histogram=Histogram(data_points=[HistogramDataPoint()])
    )
    intake = decoder().decode(body({"service.name": "otel-ofu"}, own, duration), NOW)
    assert (intake.accepted, intake.rejected.points, intake.ignored) == (0, 0, 2)


def test_a_training_job_is_known_by_its_scheduler() -> None:
    speed = gauge("megatron.training.throughput_tflops", point(400.0, {"dl.rank": 0}))
    mfu = gauge("mfu(%)", point(41.0))
    unknown = gauge("ml.training.mfu", point(-1.0))
    for resource, job in (
        ({"ofu.job.id": "a", "slurm.job.id": "b"}, "a"),
        ({"slurm.job.id": "b", "k8s.pod.uid": "c"}, "b"),
        ({"k8s.pod.uid": "c", "service.instance.id": "d"}, "c"),
        ({"service.instance.id": "d"}, "d"),
    ):
        intake = decoder().decode(body(resource, speed, mfu), NOW)
        assert told(intake) == {
            ("job", job, "model_flop_rate", T0): 4e14,
            ("job", job, "mfu_reported", T0): pytest.approx(0.41),
        }
        assert all(batch.pushed for batch in intake.batches)
        assert entities(intake)[0].attributes["ofu.job.id"] == job
    intake = decoder().decode(body({"slurm.job.id": "b"}, unknown), NOW)
    assert (told(intake), intake.rejected.points) == ({}, 0)


def test_the_mfu_of_a_role_is_not_the_jobs() -> None:
    roles = [gauge(f"perf/mfu/{role}", point(0.3)) for role in ("actor", "actor_infer")]
    intake = decoder().decode(body({"ofu.job.id": "a"}, *roles), NOW)
    assert told(intake) == {
        ("job", "a", "mfu_role:actor", T0): 0.3,
        ("job", "a", "mfu_role:actor_infer", T0): 0.3,
    }


def test_a_nodes_part_of_a_job_is_not_the_job() -> None:
    metric = gauge("ofu.job.utilization", point(0.5))
    part, whole = ({"ofu.job.id": "7", "ofu.job.scope": scope} for scope in ("node", "fleet"))
    assert decoder().decode(body(part, metric), NOW).ignored == 1
    assert only_value(decoder().decode(body(whole, metric), NOW)) == 0.5


def test_an_entity_ends_with_its_last_series() -> None:
    rounds = [{"ofu": 0.5, "power": 1.0}, {"power": 1.0}, {"ofu": 0.5}, {}]
    ours = decoder()
    ended = [
        ours.decode(raw, NOW).ended
        for raw in ticks([[seen(gpu(1), t, v)] for t, v in enumerate(rounds, 1)])
    ]
    assert ended == [[], [], [], [("gpu", gpu(1).id)]]


def test_a_gpu_that_changes_its_job_ends_for_the_old_one() -> None:
    ours = decoder()
    first, both, again = ticks([[seen(gpu(1, job), t)] for t, job in enumerate("aba", 1)])
    assert ours.decode(first, NOW).ended == []
    assert ours.decode(both, NOW).ended == [("gpu", "GPU-0001/a")]
    back = ours.decode(again, NOW)
    assert back.ended == [("gpu", "GPU-0001/b")]
    assert {e for _, e, _, _ in told(back)} == {"GPU-0001/a"}


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        (
            {f"name-{i}": "x" for i in range(129)},
            "a resource with more than 128 attributes",
        ),
        ({"x": "y" * 5000}, "a resource attribute of more than 4096 characters"),
    ],
)
def test_a_resource_that_is_too_much_is_refused(
    attributes: dict[str, Attribute], reason: str
) -> None:
    raw = body({**GPU, **attributes}, gauge("ofu.gpu.utilization", point(0.5)))
    assert str(decoder().decode(raw, NOW).rejected) == f"1 point: {reason}"


def test_entities_that_churn_leave_nothing_behind() -> None:
    ours = decoder(1000)
    for number in range(2000):
        now_s = NOW + number
        raw = body({"hw.id": f"GPU-{number}"}, gauge("ofu.gpu.utilization", point(0.5)))
        assert ours.decode(raw, now_s).accepted == 1
    assert max(ours.remembered) <= 1000


def test_there_is_an_end_to_new_entities_and_known_ones_go_on() -> None:
    ours = decoder(10)
    bodies = [
        body({"hw.id": f"GPU-{n}"}, gauge("ofu.gpu.utilization", point(0.5))) for n in range(12)
    ]
    taken = [ours.decode(raw, NOW).accepted for raw in bodies]
    assert taken == [1] * 10 + [0, 0]
    assert str(ours.decode(bodies[11], NOW).rejected) == (
        "1 point: there are 10 GPUs, jobs and nodes already"
    )
    assert ours.decode(bodies[0], NOW).accepted == 1
    ours.decode(bodies[0], NOW + 800)
    assert ours.decode(bodies[11], NOW + 1000).accepted == 1


def tagged(tag: int, content: bytes) -> bytes:
    length, out = len(content), bytes([tag])
    while length >= 0x80:
        out += bytes([length & 0x7F | 0x80])
        length >>= 7
    return out + bytes([length]) + content


def test_fields_may_come_in_any_order_twice_and_unknown() -> None:
    """As protobuf allows it: the last value counts, parts of messages are joined."""
    hw_id = tagged(0x0A, b"hw.id") + tagged(0x12, tagged(0x0A, b"GPU-1"))
    host = tagged(0x0A, b"host.name") + tagged(0x12, tagged(0x0A, b"node-1"))
    resource = tagged(0x0A, tagged(0x0A, hw_id)) + tagged(0x0A, tagged(0x0A, host))
    number = struct.pack("<Bd", 0x21, 0.25) + struct.pack("<BQ", 0x19, int(T0) * 10**9)
    number += struct.pack("<Bd", 0x21, 0.5) + b"\xc5\x3e\x01\x02\x03\x04"  # a fixed32 of tomorrow
    unknown = b"\xf8\x07\xac\x02"  # field 127, a varint
    metric = tagged(0x2A, tagged(0x0A, number)) + unknown + tagged(0x0A, b"ofu.gpu.utilization")
    raw = tagged(0x0A, tagged(0x12, tagged(0x12, metric)) + unknown + resource) + unknown
    ours = decoder()
    for _ in range(2):
        assert told(ours.decode(raw, NOW)) == {("gpu", "GPU-1", "ofu", T0): 0.5}


@pytest.mark.parametrize(
    "raw",
    [
        b"\x0a",
        b"\x0a\x05abc",
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x0b\x0c",  # a group
        bytes(100),
        b"hello, this is not protobuf",
        tagged(0x0A, tagged(0x12, tagged(0x12, tagged(0x0A, b"\xff\xfe")))),  # a name, not UTF-8
    ],
)
def test_protobuf_that_is_no_request_is_told_apart(raw: bytes) -> None:
    with pytest.raises(MalformedError):
        decoder().decode(raw, NOW)


def test_every_truncation_of_a_request_is_told_apart_or_harmless() -> None:
    (raw,) = ticks([[seen(gpu(1))]])
    warm = decoder()
    warm.decode(raw, NOW)
    whole = told(warm.decode(raw, NOW))
    for length in range(1, len(raw)):
        with pytest.raises(MalformedError):
            warm.decode(raw[:length], NOW)
    assert told(warm.decode(raw, NOW)) == whole


@given(st.binary(max_size=200))
@examples(5)
def test_junk_never_breaks_the_decoder(raw: bytes) -> None:
    ours = decoder()
    for decode in (ours.decode, ours.decode_json):
        with suppress(MalformedError):
            decode(raw, NOW)


@given(st.data())
@examples(2)
def test_a_request_with_a_few_wrong_bytes_never_breaks_it(data: st.DataObject) -> None:
    (raw,) = ticks([[seen(gpu(1))]])
    ours = decoder()
    ours.decode(raw, NOW)
    broken = bytearray(raw)
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MalformedError):
        ours.decode(bytes(broken), NOW)
    assert len(told(ours.decode(raw, NOW))) == len(values())
