from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Entity, EntityKind, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.store import Retention, Store
from tests.properties import examples
from tests.store.fleets import NAN, START_S, Bench, gpu, seen


def test_a_window_begins_after_its_start_and_ends_with_its_end() -> None:
    bench = Bench()
    for at_s in (10, 20, 30, 40):
        bench.write(seen(gpu(), at_s, {"ofu": at_s / 100}))
    assert bench.rows("ofu", 20, 40) == [0.3, 0.4]
    assert bench.rows("ofu", 20, 30) == [0.2, 0.3]


def test_what_nobody_saw_is_missing_not_zero() -> None:
    bench = Bench()
    bench.write(seen(gpu(), 10, {"ofu": 0.1, "power": 5.0}))
    bench.write(seen(gpu(), 30, {"ofu": 0.3}), seen(gpu("GPU-1"), 30, {"ofu": 0.5}))
    np.testing.assert_equal(bench.rows("ofu", 30, 30), [0.1, NAN, 0.3])
    np.testing.assert_equal(bench.rows("ofu", 30, 30, column=1), [NAN, NAN, 0.5])
    np.testing.assert_equal(bench.rows("power", 30, 30), [5.0, NAN, NAN])
    assert bench.store.block("gpu", "sm_clock", START_S, START_S + 30).length == 0


def test_a_time_between_two_steps_counts_to_the_next() -> None:
    bench = Bench()
    bench.write(seen(gpu(), 12, {"ofu": 0.2}))
    assert bench.rows("ofu", 10, 20) == [0.2]


def test_a_timer_that_is_a_little_late_counts_to_its_instant() -> None:
    bench = Bench()
    bench.write(seen(gpu(), 20.9, {"ofu": 0.2}))
    assert bench.rows("ofu", 10, 20) == [0.2]


def test_late_points_land_where_they_belong_as_long_as_the_row_is_there() -> None:
    bench = Bench(Retention(depth_s=300))
    bench.write(seen(gpu(), 400, {"ofu": 0.9}))
    bench.write(seen(gpu(), 110, {"ofu": 0.1}), seen(gpu(), 90, {"ofu": 0.5}))
    assert bench.rows("ofu", 300, 400)[0] == 0.1
    assert bench.store.counts["late"] == 1
    assert bench.store.counts["stored"] == 2


def test_points_of_the_future_are_refused_and_counted() -> None:
    bench = Bench()
    bench.write(seen(gpu(), 10, {"ofu": 0.1}))
    bench.store.write([seen(gpu(), 10_000, {"ofu": 0.9, "power": 1.0})])
    assert bench.rows("ofu", 10, 10) == [0.1]
    assert bench.store.counts["early"] == 2


def test_a_clock_that_is_set_back_begins_a_new_history() -> None:
    bench = Bench()
    bench.write(seen(gpu(), 100_000, {"ofu": 0.9}))
    bench.clock.set(START_S + 10)
    bench.store.write([seen(gpu(), 10, {"ofu": 0.1})])
    assert bench.rows("ofu", 20, 10)[-1] == 0.1
    assert bench.store.counts["restarted"] == 1


def test_a_value_fills_the_steps_of_its_own_window_where_nothing_else_is() -> None:
    bench = Bench()
    bench.write(seen(gpu(), 10, {"ofu": 0.1}))
    bench.write(seen(gpu(), 40, {"ofu": 0.4}, length_s=40))
    assert bench.rows("ofu", 40, 40) == [0.1, 0.4, 0.4, 0.4]


def test_a_value_that_claims_an_hour_fills_a_minute() -> None:
    bench = Bench()
    bench.write(seen(gpu(), 100, {"ofu": 0.4}, length_s=3600))
    np.testing.assert_equal(bench.rows("ofu", 80, 100), [NAN, NAN, *[0.4] * 6])


def test_what_is_no_metric_of_the_kind_is_counted() -> None:
    bench = Bench()
    job = Entity("job", "j", {})
    bench.write(seen(gpu(), 10, {"nonsense": 1, "ofu": NAN, "flag:NCCL_DEBUG": 1}))
    bench.write(seen(job, 10, {"ofu": 1}))
    counts = bench.store.counts
    assert (counts["unknown"], counts["refused"], counts["stored"]) == (2, 1, 1)


def test_labels_without_end_are_refused_before_they_fill_the_memory() -> None:
    bench = Bench(Retention(depth_s=300))
    bench.write(seen(gpu(), 10, {f"xid:{n}": 1.0 for n in range(700)}))
    assert bench.store.counts["refused"] == 700 - 512


def test_only_metrics_that_are_asked_for_are_kept() -> None:
    bench = Bench(Retention(only=frozenset({("gpu", "ofu")})))
    bench.write(seen(gpu(), 10, {"ofu": 0.1, "power": 5.0}))
    assert bench.store.counts["stored"] == 1


def test_columns_are_written_as_arrays() -> None:
    bench = Bench()
    columns = bench.store.admit([gpu("a"), gpu("b")], Window(START_S, START_S + 10))
    bench.clock.set(START_S + 20)
    bench.store.write_columns("gpu", "ofu", START_S + 20, columns, np.array([0.5, NAN]))
    assert bench.rows("ofu", 10, 20) == [0.5]
    assert math.isnan(bench.rows("ofu", 10, 20, column=1)[0])


HOURS: dict[tuple[EntityKind, str], float] = {
    ("gpu", "ofu"): 7200.0,
    ("gpu", "xid:79"): 7200.0,
    ("gpu", "energy"): 7200.0,
}


class TestCounters:
    def test_are_kept_as_what_was_added(self) -> None:
        bench = Bench()
        for at_s, total in ((10, 100.0), (20, 107.0), (30, 107.0), (40, 120.0)):
            bench.write(seen(gpu(), at_s, {"energy": total}))
        np.testing.assert_equal(bench.rows("energy", 40, 40), [NAN, 7, 0, 13])

    def test_keep_their_digits_however_large_they_are(self) -> None:
        bench = Bench()
        for tick in range(31):
            bench.write(seen(gpu(), 10 * tick, {"energy": 3e12 + 6543.0 * tick}))
        assert sum(bench.rows("energy", 300, 300)) == 30 * 6543.0

    def test_count_from_zero_after_a_reset(self) -> None:
        bench = Bench()
        for at_s, total in ((10, 100.0), (20, 5.0), (30, 6.0)):
            bench.write(seen(gpu(), at_s, {"energy": total}))
        np.testing.assert_equal(bench.rows("energy", 30, 30), [NAN, 5, 1])

    def test_count_from_zero_when_their_start_says_so(self) -> None:
        bench = Bench()
        bench.write(seen(gpu(), 10, {"energy": 100.0}, starts_s={"energy": 0}))
        bench.write(seen(gpu(), 20, {"energy": 300.0}, starts_s={"energy": 15}))
        assert bench.rows("energy", 20, 20) == [100, 300]

    def test_that_began_while_the_gpu_was_watched_count_from_zero(self) -> None:
        bench = Bench()
        bench.write(seen(gpu(), 10, {"ofu": 0.1}))
        bench.write(seen(gpu(), 20, {"xid:79": 1.0}, starts_s={"xid:79": 5}))
        bench.write(seen(gpu(), 20, {"xid:48": 1.0}, starts_s={"xid:48": -500}))
        assert bench.rows("xid:79", 10, 20) == [1]
        assert math.isnan(bench.rows("xid:48", 10, 20)[0])

    def test_that_appear_with_their_first_event_were_0_while_the_gpu_was_seen(self) -> None:
        bench = Bench()
        for at_s in (10, 20, 40, 50):
            bench.write(seen(gpu(), at_s, {"ofu": 0.1}))
        bench.write(seen(gpu(), 50, {"xid:79": 2.0, "energy": 2.0}, starts_s={"xid:79": 40}))
        np.testing.assert_equal(bench.rows("xid:79", 50, 50), [0, 0, NAN, 0, 2])
        assert np.isnan(bench.rows("energy", 50, 50)).all()

    def test_that_came_as_0_were_0_while_the_gpu_was_seen_over_hours_too(self) -> None:
        bench = Bench(Retention(depth_s=300, minutes=HOURS))
        for at_s in range(10, 3610, 10):
            bench.write(seen(gpu(), at_s, {"ofu": 0.1} if at_s > 1200 else {}))
        bench.write(seen(gpu(), 3610, {"xid:79": 0.0, "energy": 0.0}))
        bench.write(seen(gpu(), 3620, {"xid:79": 1.0, "energy": 1.0}))
        block = bench.store.minutes("gpu", "xid:79", START_S, START_S + 3600)
        counts = np.concatenate(block.counts)[:, 0]
        assert counts.tolist() == [0.0] * 20 + [6.0] * 40
        assert np.nansum(block.array()) == 0
        assert np.isnan(bench.store.minutes("gpu", "energy", START_S, START_S + 3540).array()).all()

    def test_say_nothing_over_a_gap_of_more_than_five_minutes(self) -> None:
        bench = Bench()
        for at_s, total in ((0, 100.0), (300, 107.0), (610, 120.0), (620, 121.0)):
            bench.write(seen(gpu(), at_s, {"energy": total}))
        assert bench.rows("energy", 10, 300) == [7]
        np.testing.assert_equal(bench.rows("energy", 20, 620), [NAN, 1])

    def test_out_of_order_are_dropped_and_counted(self) -> None:
        bench = Bench()
        for at_s, total in ((10, 100.0), (30, 130.0), (20, 110.0), (40, 140.0)):
            bench.write(seen(gpu(), at_s, {"energy": total}))
        np.testing.assert_equal(bench.rows("energy", 40, 40), [NAN, NAN, 30, 10])
        assert bench.store.counts["out_of_order"] == 1

    def test_add_up_within_one_step(self) -> None:
        bench = Bench()
        for at_s, total in ((10, 100.0), (12, 103.0), (15, 107.0)):
            bench.write(seen(gpu(), at_s, {"energy": total}))
        assert bench.rows("energy", 10, 20) == [7]

    def test_of_slow_sources_cover_the_steps_in_between(self) -> None:
        bench = Bench()
        for at_s, total in ((30, 100.0), (60, 190.0)):
            bench.write(seen(gpu(), at_s, {"energy": total}, length_s=30))
        assert bench.rows("energy", 30, 60) == [0, 0, 90]

    def test_have_their_last_total(self) -> None:
        bench = Bench()
        bench.write(seen(gpu(), 10, {"energy": 3e12 + 1}), seen(gpu("GPU-1"), 10, {"ofu": 1}))
        totals, seen_s = bench.store.totals("gpu", "energy")
        np.testing.assert_equal(totals, [3e12 + 1, NAN])
        np.testing.assert_equal(seen_s, [START_S + 10, NAN])


@pytest.mark.parametrize("step_s", [1.0, 7.0, 10.0, 30.0, 90.0])
@given(
    points=st.lists(
        st.tuples(st.integers(0, 120), st.integers(0, 3), st.floats(0, 1, width=32)),
        min_size=1,
        max_size=40,
    )
)
@examples(0.25)
def test_the_ring_holds_what_a_plain_list_holds(
    step_s: float, points: list[tuple[int, int, float]]
) -> None:
    clock = VirtualClock(START_S)
    store = Store(load_registry(), Retention(depth_s=300), step_s=step_s, clock=clock)
    first = store.bucket(START_S) + 5
    head = 0
    for number, who, value in points:
        head = max(head, number)
        end_s = (first + number) * step_s
        clock.set(max(clock.now_s(), end_s))
        entity = gpu(f"GPU-{who}")
        store.write([Observation(entity, Window(end_s - step_s, end_s), {"ofu": value})])
    rows = math.ceil(300 / step_s) + 1
    oldest = max(head - rows + 1, -5)
    block = store.block("gpu", "ofu", (first + oldest - 1) * step_s, (first + head) * step_s)
    expected = np.full((head - oldest + 1, block.columns), NAN, np.float32)
    column = {entity.id: slot for slot, entity in store.slots("gpu")}
    for (number, who), value in _kept(points, rows).items():
        if number >= oldest:
            expected[number - oldest, column[f"GPU-{who}"]] = value
    np.testing.assert_array_equal(block.array(), expected)


def _kept(points: list[tuple[int, int, float]], rows: int) -> dict[tuple[int, int], float]:
    """The last value of each bucket that was not too late when it came."""
    head, kept = -1_000, {}
    for number, who, value in points:
        head = max(head, number)
        if number > head - rows:
            kept[number, who] = value
    return kept
