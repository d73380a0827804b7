"""Order and bounds of a queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.outbox.batch import Entry, Limits, Priority
from otel_ofu.outbox.queues import PriorityQueues

M, E = Priority.METRICS, Priority.EVENTS


def entry(number: int, priority: Priority = M, size: int = 1, created_s: float = 0.0) -> Entry:
    return Entry(number, priority, created_s, size, 1)


def ids(entries: list[Entry]) -> list[int]:
    return [s.id for s in entries]


def test_events_go_first_and_each_kind_in_its_order() -> None:
    queues = PriorityQueues(Limits())
    for number, priority in enumerate((M, M, E, M, E)):
        queues.append(entry(number, priority))
    order = []
    while (first := queues.first()) is not None:
        order.append(first.id)
        queues.remove(first)
    assert order == [2, 4, 0, 1, 3]


def test_the_oldest_metrics_make_room_and_events_only_when_no_metrics_are_left() -> None:
    queues = PriorityQueues(Limits(max_bytes=3))
    dropped = [ids(queues.append(entry(n, p))) for n, p in enumerate((E, M, M, E, E, M, E))]
    assert dropped == [[], [], [], [1], [2], [5], [0]]


def test_one_that_is_larger_than_all_crowds_out_nobody_else() -> None:
    queues = PriorityQueues(Limits(max_bytes=3))
    queues.append(entry(0))
    assert ids(queues.append(entry(1, size=4))) == [1]
    assert len(queues) == 1


def test_what_is_being_sent_is_neither_expired_nor_crowded_out() -> None:
    queues = PriorityQueues(Limits(max_bytes=2, max_age_s=10))
    queues.append(entry(0))
    queues.held = 0
    queues.append(entry(1))
    assert ids(queues.append(entry(2))) == [1]
    assert ids(queues.expire(100.0)) == [2]
    queues.held = None
    assert ids(queues.expire(100.0)) == [0]
    assert queues.size_bytes == 0


def test_age_counts_from_the_limit_on() -> None:
    queues = PriorityQueues(Limits(max_age_s=10))
    queues.append(entry(0, created_s=0.0))
    queues.append(entry(1, created_s=5.0))
    assert ids(queues.expire(10.0)) == []
    assert ids(queues.expire(10.1)) == [0]


def test_removing_twice_changes_nothing() -> None:
    queues = PriorityQueues(Limits())
    queues.append(entry(0, size=7))
    assert queues.remove(entry(0, size=7))
    assert not queues.remove(entry(0, size=7))
    assert queues.size_bytes == 0


@given(st.lists(st.tuples(st.sampled_from([M, E]), st.integers(1, 5))), st.integers(1, 12))
def test_bytes_stay_within_the_limit_and_nothing_is_lost_without_being_told(
    arrivals: list[tuple[Priority, int]], limit: int
) -> None:
    queues = PriorityQueues(Limits(max_bytes=limit))
    dropped: set[int] = set()
    for number, (priority, size) in enumerate(arrivals):
        gone = queues.append(entry(number, priority, size))
        events_left = any(arrivals[g.id][0] is M for g in gone) or all(
            kept.priority is E for queue in queues._queues.values() for kept in queue
        )
        assert not any(g.priority is E and g.size_bytes <= limit for g in gone) or events_left
        dropped |= set(ids(gone))
        assert queues.size_bytes <= limit
    kept = {s.id for queue in queues._queues.values() for s in queue}
    assert kept | dropped == set(range(len(arrivals)))
    assert not kept & dropped
