from __future__ import annotations

import threading

import pytest

from otel_ofu.model.worker import STALE_AFTER_INTERVALS, Worker
from tests.waiting import HANGS_S


def made(begun: list[float], *, budget_s: float = HANGS_S) -> Worker:
    return Worker("test", begun.append, interval_s=10.0, budget_s=budget_s)


def test_the_work_is_begun_at_once_and_then_once_an_interval() -> None:
    begun: list[float] = []
    worker = made(begun)
    for now_s in (100.0, 105.0, 109.9, 110.0, 119.9995):
        worker.run(now_s)
    assert begun == [100.0, 110.0, 119.9995]


def test_a_clock_that_was_set_back_does_not_stop_the_work() -> None:
    begun: list[float] = []
    worker = made(begun)
    for now_s in (1000.0, 500.0, 505.0, 510.0):
        worker.run(now_s)
    assert begun == [1000.0, 500.0, 510.0]


def test_work_that_hangs_is_left_after_the_budget_and_not_begun_again() -> None:
    begun: list[float] = []
    over = threading.Event()

    def work(now_s: float) -> None:
        begun.append(now_s)
        over.wait(HANGS_S)

    worker = Worker("test", work, interval_s=10.0, budget_s=0.01)
    worker.run(0.0)
    worker.run(50.0)
    assert begun == [0.0]
    over.set()
    worker.wait(HANGS_S)
    worker.run(50.0)
    assert begun == [0.0, 50.0]


def test_work_that_hangs_is_left_and_begun_in_one_other_thread() -> None:
    begun: list[float] = []
    hung: list[float] = []
    over = threading.Event()

    def work(now_s: float) -> None:
        begun.append(now_s)
        over.wait(HANGS_S)

    worker = Worker(
        "test",
        work,
        interval_s=10.0,
        budget_s=0.01,
        on_hang=lambda: hung.append(begun[-1]),
    )
    for now_s in (0.0, 40.0, 40.1, 50.0, 80.2, 900.0):
        worker.run(now_s)
    assert (begun, hung, worker.hangs) == ([0.0, 40.1], [0.0], True)
    over.set()
    worker.wait(HANGS_S)
    assert worker._left is not None
    worker._left.join(HANGS_S)
    worker.run(910.0)
    assert (begun[2:], hung, worker.hangs) == ([910.0], [0.0], False)


@pytest.mark.parametrize(
    ("age_s", "stale"), [(0.0, False), (40.0, False), (40.1, True), (-1.0, False), (-41.0, True)]
)
def test_what_is_older_than_a_few_intervals_is_stale(age_s: float, *, stale: bool) -> None:
    assert STALE_AFTER_INTERVALS == 4
    assert made([]).is_stale(100.0, 100.0 + age_s) is stale
