"""What becomes of a sample: values, gaps and their reasons, over the fake engine."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from otel_ofu.model import GapReason, Reading
from tests.sources.dcgm.conftest import MakeRig
from tests.sources.dcgm.rig import START_S, Rig, h100, values

INT64, INT32, DOUBLE = 0x7FFFFFFFFFFFFFF0, 0x7FFFFFF0, 2.0**47


def one_gpu(rig: MakeRig, **more: object) -> Rig:
    return rig({"gpus": [h100(0, **more)]})


def set_value(rig: Rig, field: int, value: object) -> None:
    rig.state["gpus"][0].setdefault("values", {})[str(field)] = value


def reason(reading: Reading, key: str) -> GapReason:
    assert key not in reading.values
    return reading.gaps[key].reason


def test_ofu_inputs_come_in_catalogue_units(rig: MakeRig) -> None:
    reading = one_gpu(rig).ready()[0]
    got = values(reading, "tensor_active", "sm_clock", "max_sm_clock")
    assert got == {"tensor_active": 0.4375, "sm_clock": 1410e6, "max_sm_clock": 1980e6}
    ofu = got["tensor_active"] * got["sm_clock"] / got["max_sm_clock"]
    assert ofu == pytest.approx(0.311553, abs=1e-6)
    assert reading.gaps == {}


def test_units_follow_the_registry(rig: MakeRig) -> None:
    got = one_gpu(rig).ready()[0].values
    assert got["energy"] == 5000.0
    assert got["gpu_util"] == pytest.approx(0.97)
    assert got["mem_total"] == 81559 * 2**20
    assert got["pcie_tx"] == 1048576000.0
    assert got["throttle_time:power"] == pytest.approx(2.0)


def test_the_first_profiling_interval_is_not_ready_while_plain_fields_are(rig: MakeRig) -> None:
    one = one_gpu(rig)
    reading = one.source.read(one.clock.now_s())[0]
    assert reason(reading, "tensor_active") is GapReason.NOT_READY
    assert reading.values["sm_clock"] == 1410e6


def test_windows_join_without_overlap(rig: MakeRig) -> None:
    one = one_gpu(rig)
    windows = [one.ready()[0].window, one.tick()[0].window, one.tick()[0].window]
    assert [w.start_s for w in windows[1:]] == [w.end_s for w in windows[:-1]]
    assert all(w.length_s == pytest.approx(10) for w in windows)


def test_a_window_does_not_reach_back_over_missed_ticks(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    one.clock.advance(300)
    assert one.source.read(one.clock.now_s())[0].window.length_s == pytest.approx(10)


@pytest.mark.parametrize(
    ("field", "key", "value", "expected"),
    [
        (100, "sm_clock", INT64, GapReason.FAILED),
        (100, "sm_clock", INT64 + 1, GapReason.FAILED),
        (100, "sm_clock", INT64 + 2, GapReason.NOT_SUPPORTED),
        (100, "sm_clock", INT64 + 3, GapReason.NOT_PERMITTED),
        (100, "sm_clock", INT32, GapReason.FAILED),
        (100, "sm_clock", INT32 + 1, GapReason.FAILED),
        (100, "sm_clock", INT32 + 2, GapReason.NOT_SUPPORTED),
        (100, "sm_clock", INT32 + 3, GapReason.NOT_PERMITTED),
        (155, "power", DOUBLE, GapReason.FAILED),
        (155, "power", DOUBLE + 1, GapReason.FAILED),
        (155, "power", DOUBLE + 2, GapReason.NOT_SUPPORTED),
        (155, "power", DOUBLE + 3, GapReason.NOT_PERMITTED),
        (155, "power", "<<<NOT_PERM>>>", GapReason.NOT_PERMITTED),
        (155, "power", "412 W", GapReason.FAILED),
        (155, "power", float("nan"), GapReason.FAILED),
        (155, "power", float("inf"), GapReason.FAILED),
        (155, "power", -1.0, GapReason.OUT_OF_RANGE),
        (1004, "tensor_active", 1.3, GapReason.OUT_OF_RANGE),
        (1004, "tensor_active", -0.05, GapReason.OUT_OF_RANGE),
        (1004, "tensor_active", DOUBLE + 3, GapReason.NOT_PERMITTED),
        (203, "gpu_util", 255, GapReason.OUT_OF_RANGE),
        (113, "max_sm_clock", 0, GapReason.OUT_OF_RANGE),
        (156, "energy", INT64 + 2, GapReason.NOT_SUPPORTED),
    ],
)
def test_no_sentinel_and_no_impossible_number_is_a_value(
    rig: MakeRig, field: int, key: str, value: object, expected: GapReason
) -> None:
    one = one_gpu(rig)
    set_value(one, field, value)
    reading = one.ready()[0]
    assert reason(reading, key) is expected
    assert "temperature" in reading.values


def test_numbers_near_a_sentinel_are_values(rig: MakeRig) -> None:
    one = one_gpu(rig)
    set_value(one, 1086, INT32 + 4)
    set_value(one, 156, 2**47)
    got = one.ready()[0].values
    assert got["mma_cycles_active"] == INT32 + 4
    assert got["energy"] == 2**47 / 1000


@pytest.mark.parametrize("engine", ["3.3.9", "4.6.0"])
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (-6, GapReason.NOT_SUPPORTED),
        (-13, GapReason.NOT_SUPPORTED),
        (-14, GapReason.NOT_READY),
        (-15, GapReason.STALE),
        (-16, GapReason.FAILED),
        (-17, GapReason.NOT_PERMITTED),
        (-18, GapReason.FAILED),
        (-99, GapReason.FAILED),
    ],
)
def test_a_bad_status_is_a_gap_whatever_the_value(
    rig: MakeRig, engine: str, status: int, expected: GapReason
) -> None:
    one = rig(
        {
            "engine_version": engine,
            "bindings_major": int(engine[0]),
            "gpus": [h100(0, status={"155": status})],
        }
    )
    assert reason(one.ready()[0], "power") is expected


def halves(one: Rig, *states: Mapping[int, object]) -> Reading:
    """The next reading, after 5 s in each state."""
    for state in states:
        for field, value in state.items():
            set_value(one, field, value)
        one.pass_s(5)
    return one.source.read(one.clock.now_s())[0]


def test_the_clock_has_its_mean_over_the_window_its_end_and_a_standard_error(rig: MakeRig) -> None:
    one = one_gpu(rig, values={"100": 1200})
    one.ready()
    got = halves(one, {100: 1200}, {100: 1800}).values
    assert got["sm_clock"] == 1800e6
    assert got["sm_clock_mean"] == pytest.approx(1500e6)
    # One step of 600 MHz in ten samples: sqrt(600**2 / (2 * 9) / 10).
    assert got["sm_clock_mean_error"] == pytest.approx(44.72e6, rel=1e-3)


def test_activity_is_multiplied_with_the_clock_of_its_own_interval(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    slow, fast = {1004: 0.8, 100: 1200}, {1004: 0.2, 100: 1980}
    halves(one, slow, fast)
    reading = halves(one, slow, fast)
    got = reading.values
    assert got["sm_clock_mean"] == pytest.approx(1590e6)
    ofu = got["tensor_active"] * got["sm_clock_mean"] / 1830e6
    assert ofu == pytest.approx(0.3705, abs=1e-4)  # 0.434 from the means of the two
    assert reading.window_of("tensor_active") == reading.window_of("sm_clock_mean")
    assert reading.window_of("tensor_active").length_s == pytest.approx(10)


def test_shares_of_time_are_weighted_by_time(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    got = halves(one, {1001: 1.0, 1002: 1.0, 100: 600}, {1001: 0.0, 1002: 0.0, 100: 1800}).values
    assert got["gr_engine_active"] == pytest.approx(0.5)
    assert got["sm_active"] == pytest.approx(0.25)


def test_activity_without_any_elapsed_cycle_is_its_mean_over_time(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    got = halves(one, {1004: 0.0, 100: 0}, {}).values
    assert (got["tensor_active"], got["sm_clock_mean"]) == (0, 0)


def test_activity_without_a_clock_is_its_mean_over_time(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    reading = halves(one, {1004: 0.2, 100: INT64 + 3}, {1004: 0.4})
    assert reading.values["tensor_active"] == pytest.approx(0.3)
    assert reason(reading, "sm_clock_mean") is GapReason.NOT_PERMITTED


def test_the_clock_while_busy_is_that_of_busy_intervals(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    got = halves(one, {1001: 1.0, 100: 1700}, {1001: 0.01, 100: 345}).values
    assert got["sm_clock_busy"] == pytest.approx(1700e6)


def test_the_clock_while_busy_is_unknown_where_every_interval_is_mixed(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    assert "sm_clock_busy" not in halves(one, {1001: 0.5, 100: 1700}, {100: 345}).values


def test_a_clock_that_stands_is_the_same_clock_busy_or_idle(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    got = halves(one, {1001: 0.5, 100: 1700}, {100: 1710}).values
    assert got["sm_clock_busy"] == pytest.approx(got["sm_clock_mean"])


def test_a_total_carries_the_time_between_its_own_samples(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    one.pass_s(3)
    one.clock.advance(7)
    reading = one.source.read(one.clock.now_s())[0]
    for key in ("sm_cycles_elapsed", "mma_cycles_active", "energy", "throttle_time:power"):
        assert reading.window_of(key).length_s == pytest.approx(10)
    one.clock.advance(9.9)  # the tick comes just before the sample that it would have read
    early = one.source.read(one.clock.now_s())[0]
    assert early.window.length_s == pytest.approx(9.9)
    assert early.window_of("energy").length_s == pytest.approx(5)
    assert early.window_of("energy").start_s == reading.window_of("energy").end_s
    one.clock.advance(10.1)
    late = one.source.read(one.clock.now_s())[0]
    assert late.window_of("sm_cycles_elapsed").length_s == pytest.approx(15)


def test_a_total_that_was_read_once_is_an_instant(rig: MakeRig) -> None:
    one = one_gpu(rig)
    first = one.source.read(one.clock.now_s())[0]
    assert first.window_of("energy").length_s == 0


def test_activity_is_the_mean_of_all_samples_of_the_window(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    assert halves(one, {1004: 0.2}, {1004: 0.6}).values["tensor_active"] == pytest.approx(0.4)


def test_a_good_sample_beside_a_bad_one_still_counts(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    assert halves(one, {1004: 1.29}, {1004: 0.6}).values["tensor_active"] == pytest.approx(0.6)


def test_no_sample_is_used_twice(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    again = one.source.read(one.clock.now_s())[0]
    assert reason(again, "tensor_active") is GapReason.STALE
    assert reason(again, "power") is GapReason.STALE


def test_a_cache_that_stands_still_is_stale_and_then_begins_anew(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    one.state["stalled"] = True
    standing = [one.tick()[0] for _ in range(3)]
    assert [reason(r, "tensor_active") for r in standing] == [GapReason.STALE] * 3
    one.state["stalled"] = False
    first = one.tick()[0]
    assert first.values["sm_clock"] == 1410e6
    assert first.window_of("tensor_active").length_s == pytest.approx(5)
    assert one.tick()[0].window_of("tensor_active").length_s == pytest.approx(10)


@pytest.mark.parametrize("step_s", [3600.0, 33.3])
def test_a_clock_set_back_does_not_freeze_the_series(rig: MakeRig, step_s: float) -> None:
    one = one_gpu(rig)
    one.ready()
    one.clock._now_s -= step_s
    read = [one.tick()[0] for _ in range(3)]
    assert all(r.values.get("sm_clock") == 1410e6 for r in read)
    assert all(r.values.get("tensor_active") == 0.4375 for r in read[1:])
    assert all(r.window.length_s == pytest.approx(10) for r in read)


def test_an_engine_whose_clock_is_ahead_is_told(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.state["clock_offset_s"] = 40.0
    reading = one.ready()[0]
    assert reason(reading, "sm_clock") is GapReason.STALE
    assert "40 s ahead" in reading.gaps["sm_clock"].detail


def test_an_engine_whose_clock_is_behind_is_told(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.state["clock_offset_s"] = -400.0
    reading = one.ready()[0]
    assert reason(reading, "sm_clock") is GapReason.STALE
    assert "400 s old" in reading.gaps["sm_clock"].detail


def test_permission_lost_after_minutes_costs_only_what_it_covers(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    for _ in range(12):
        assert "tensor_active" in one.tick()[0].values
    one.state["gpus"][0]["status"] = {"1004": -17}
    lost = one.tick()[0]
    assert reason(lost, "tensor_active") is GapReason.NOT_PERMITTED
    assert "sm_clock" in lost.values
    one.state["gpus"][0]["status"] = {}
    back = one.tick()[0]
    assert back.values["tensor_active"] == 0.4375
    assert back.window_of("tensor_active").length_s == pytest.approx(20)  # since the last good one


def test_a_pause_in_the_engine_is_named(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    one.state["paused"] = True
    reading = one.tick()[0]
    assert reason(reading, "tensor_active") is GapReason.NOT_READY
    assert "paused" in reading.gaps["tensor_active"].detail


def test_a_blank_without_reason_is_a_failure_once_the_start_is_over(rig: MakeRig) -> None:
    one = one_gpu(rig)
    for _ in range(3):
        one.tick()
    set_value(one, 1004, DOUBLE)
    assert reason(one.tick()[0], "tensor_active") is GapReason.FAILED


def test_each_clock_event_reason_is_told(rig: MakeRig) -> None:
    one = one_gpu(rig)
    set_value(one, 112, 0x4 | 0x40)
    got = one.ready()[0].values
    active = {k for k, v in got.items() if k.startswith("throttled:") and v == 1}
    assert active == {"throttled:sw_power_cap", "throttled:hw_thermal_slowdown"}
    assert got["throttled:gpu_idle"] == 0


def test_clock_event_reasons_are_shares_of_the_window(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    got = halves(one, {112: 0x4}, {112: 0x1}).values
    assert got["throttled:sw_power_cap"] == got["throttled:gpu_idle"] == pytest.approx(0.5)


def xids(reading: Reading) -> dict[str, float]:
    return {k: v for k, v in reading.values.items() if k.startswith("xid:")}


def put_xid(one: Rig, code: int, at_s: float) -> None:
    """The engine records an error with the time at which it came."""
    set_value(one, 230, None)
    one.engine.samples.setdefault((1, 0, 230), []).append((round(at_s * 1e6), code, 0))


def test_errors_of_the_driver_are_counted_by_code(rig: MakeRig) -> None:
    one = one_gpu(rig)
    assert xids(one.ready()[0]) == {}
    put_xid(one, 79, one.clock.now_s() + 1)
    assert xids(one.tick()[0]) == {"xid:79": 1}
    assert xids(one.tick()[0]) == {"xid:79": 1}
    put_xid(one, 79, one.clock.now_s() + 1)
    assert xids(one.tick()[0]) == {"xid:79": 2}
    put_xid(one, 31, one.clock.now_s() + 1)
    assert xids(one.tick()[0]) == {"xid:79": 2, "xid:31": 1}


def test_every_error_between_two_reads_counts(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    for after_s in (1.0, 1.2, 4.0):
        put_xid(one, 94, one.clock.now_s() + after_s)
    put_xid(one, 31, one.clock.now_s() + 1.1)
    assert xids(one.tick()[0]) == {"xid:94": 3, "xid:31": 1}


def test_errors_that_came_while_the_connection_was_away_count(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    put_xid(one, 31, one.clock.now_s() + 1)
    assert xids(one.tick()[0]) == {"xid:31": 1}
    assert one.channel is not None
    one.channel.stop(0)
    one.source._drop(0)
    put_xid(one, 79, one.clock.now_s() + 2)
    assert xids(one.tick()[0]) == {"xid:79": 1, "xid:31": 1}


def test_an_engine_of_3_3_logs_nothing_because_there_was_no_error(rig: MakeRig) -> None:
    one = rig({"engine_version": "3.3.9", "bindings_major": 3, "gpus": [h100(0), h100(1)]})
    one.ready()
    one.tick()
    assert one.engine.error_lines == 0


def test_one_read_a_tick_asks_for_all(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    one.engine.calls.clear()
    one.engine.requests = 0
    one.tick()
    assert one.engine.calls == ["latest", "history", "history"]
    assert one.engine.requests < 25


@pytest.mark.parametrize("code", [-16, -17])
def test_a_field_without_history_falls_back_to_its_newest_sample(rig: MakeRig, code: int) -> None:
    one = one_gpu(rig)
    one.ready()
    one.state["gpus"][0]["history"] = {"1008": code}
    for _ in range(3):
        assert one.tick()[0].values["tensor_active"] == 0.4375


def test_an_error_from_before_the_start_is_not_counted(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    put_xid(one, 79, START_S - 1000)
    assert xids(one.tick()[0]) == {}


def test_errors_that_cannot_be_read_are_a_gap_of_the_codes_seen(rig: MakeRig) -> None:
    one = one_gpu(rig)
    one.ready()
    put_xid(one, 79, one.clock.now_s() + 1)
    one.tick()
    one.engine.samples[1, 0, 230].append((round((one.clock.now_s() + 1) * 1e6), 0, -17))
    assert one.tick()[0].gaps["xid:79"].reason is GapReason.NOT_PERMITTED


def test_a_key_is_a_value_or_a_gap_and_every_key_is_one_of_them(rig: MakeRig) -> None:
    one = one_gpu(rig)
    set_value(one, 1004, float("nan"))
    reading = one.ready()[0]
    assert not set(reading.values) & set(reading.gaps)
    whole = set(one.source._interpreter.fields)
    keys = {k for f in whole for k in f.keys} | {"sm_clock_mean"}
    found = set(reading.values) | set(reading.gaps)
    assert found - {"sm_clock_mean_error", "sm_clock_busy"} == keys


def test_without_profiling_nothing_above_1000_is_asked_for(rig: MakeRig) -> None:
    one = rig({"gpus": [h100(0)]}, profiling=False)
    reading = one.ready()[0]
    assert "tensor_active" not in reading.values
    assert "tensor_active" not in reading.gaps
    assert all(key[2] < 1001 for key in one.engine.samples)
