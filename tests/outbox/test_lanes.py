"""Order and bounds of a queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.outbox.batch import Limits, Priority
from otel_ofu.outbox.priority_queue import Lanes, Slip

M, E = Priority.METRICS, Priority.EVENTS


def slip(number: int, priority: Priority = M, size: int = 1, created_s: float = 0.0) -> Slip:
    return Slip(number, priority, created_s, size, 1)


def ids(slips: list[Slip]) -> list[int]:
    return [s.id for s in slips]


def test_events_go_first_and_each_kind_in_its_order() -> None:
    lanes = Lanes(Limits())
    for number, priority in enumerate((M, M, E, M, E)):
        lanes.append(slip(number, priority))
    order = []
    while (first := lanes.first()) is not None:
        order.append(first.id)
        lanes.remove(first)
    assert order == [2, 4, 0, 1, 3]


def test_the_oldest_metrics_make_room_and_events_only_when_no_metrics_are_left() -> None:
    lanes = Lanes(Limits(max_bytes=3))
    dropped = [ids(lanes.append(slip(n, p))) for n, p in enumerate((E, M, M, E, E, M, E))]
    assert dropped == [[], [], [], [1], [2], [5], [0]]


def test_one_that_is_larger_than_all_crowds_out_nobody_else() -> None:
    lanes = Lanes(Limits(max_bytes=3))
    lanes.append(slip(0))
    assert ids(lanes.append(slip(1, size=4))) == [1]
    assert len(lanes) == 1


def test_what_is_being_sent_is_neither_expired_nor_crowded_out() -> None:
    lanes = Lanes(Limits(max_bytes=2, max_age_s=10))
    lanes.append(slip(0))
    lanes.held = 0
    lanes.append(slip(1))
    assert ids(lanes.append(slip(2))) == [1]
    assert ids(lanes.expire(100.0)) == [2]
    lanes.held = None
    assert ids(lanes.expire(100.0)) == [0]
    assert lanes.size_bytes == 0


def test_age_counts_from_the_limit_on() -> None:
    lanes = Lanes(Limits(max_age_s=10))
    lanes.append(slip(0, created_s=0.0))
    lanes.append(slip(1, created_s=5.0))
    assert ids(lanes.expire(10.0)) == []
    assert ids(lanes.expire(10.1)) == [0]


def test_removing_twice_changes_nothing() -> None:
    lanes = Lanes(Limits())
    lanes.append(slip(0, size=7))
    assert lanes.remove(slip(0, size=7))
    assert not lanes.remove(slip(0, size=7))
    assert lanes.size_bytes == 0


@given(st.lists(st.tuples(st.sampled_from([M, E]), st.integers(1, 5))), st.integers(1, 12))
def test_bytes_stay_within_the_limit_and_nothing_is_lost_without_being_told(
    arrivals: list[tuple[Priority, int]], limit: int
) -> None:
    lanes = Lanes(Limits(max_bytes=limit))
    dropped: set[int] = set()
    for number, (priority, size) in enumerate(arrivals):
        gone = lanes.append(slip(number, priority, size))
        events_left = any(arrivals[g.id][0] is M for g in gone) or all(
            kept.priority is E for lane in lanes._lanes.values() for kept in lane
        )
        assert not any(g.priority is E and g.size_bytes <= limit for g in gone) or events_left
        dropped |= set(ids(gone))
        assert lanes.size_bytes <= limit
    kept = {s.id for lane in lanes._lanes.values() for s in lane}
    assert kept | dropped == set(range(len(arrivals)))
    assert not kept & dropped
