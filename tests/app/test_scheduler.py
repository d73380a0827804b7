"""The adapter around APScheduler: alignment, late rounds, clock jumps."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

from otel_ofu.app.scheduler import Scheduler, _aligned, next_aligned_s
from tests.waiting import HANGS_S


@pytest.mark.parametrize(
    ("after_s", "interval_s", "expected_s"),
    [(0, 10, 10), (9.99, 10, 10), (10, 10, 20), (10.0000001, 10, 20), (0.35, 0.1, 0.4)],
)
def test_next_instant_is_the_first_multiple_later_than_now(
    after_s: float, interval_s: float, expected_s: float
) -> None:
    assert next_aligned_s(after_s, interval_s) == pytest.approx(expected_s)


def test_a_year_missed_is_one_round_not_a_list_of_all_that_were_missed() -> None:
    trigger = _aligned(1.0)
    long_ago = datetime(2025, 1, 1, tzinfo=UTC)
    now = datetime(2026, 1, 1, 0, 0, 0, 500_000, tzinfo=UTC)
    assert trigger.get_next_fire_time(long_ago, now) == datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_ticks_get_instants_that_are_multiples_of_their_interval() -> None:
    scheduler = Scheduler()
    seen: list[float] = []
    enough = threading.Event()

    def tick(now_s: float) -> None:
        seen.append(now_s)
        if len(seen) == 3:
            enough.set()

    scheduler.every("fast", 0.1, tick)
    scheduler.start()
    assert enough.wait(HANGS_S)
    scheduler.stop()
    assert all(round(now_s * 10) == pytest.approx(now_s * 10) for now_s in seen)
    assert seen == sorted(set(seen))


def test_a_tick_that_fails_or_overruns_is_told_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[tuple[str, str]] = []
    both = threading.Event()
    release = threading.Event()

    def outcome(name: str, what: str) -> None:
        told.append((name, what))
        if told.count(("bad", "failed")) > 1 and ("slow", "skipped") in told:
            both.set()

    def fail(_now_s: float) -> None:
        raise ValueError("no")

    def wait(_now_s: float) -> None:
        release.wait(HANGS_S)

    scheduler = Scheduler(outcome=outcome)
    scheduler.every("bad", 0.1, fail)
    scheduler.every("slow", 0.1, wait)
    scheduler.start()
    assert both.wait(HANGS_S)
    release.set()
    scheduler.stop()
    assert caplog.messages.count("bad: ValueError: no") == 1


class SteppingClock:
    """A wall clock that can be set, beside a monotonic one that cannot."""

    def __init__(self) -> None:
        self.offset_s = 0.0

    def now_s(self) -> float:
        return time.time() + self.offset_s

    def monotonic_s(self) -> float:
        return time.monotonic()


def test_rounds_go_on_when_the_clock_was_set_back() -> None:
    clock = SteppingClock()
    scheduler = Scheduler(clock=clock)
    ran = threading.Event()
    scheduler.every("t", 0.1, lambda _now_s: ran.set())
    scheduler.start()
    # What a clock set back by an hour leaves: the next appointment is an hour away.
    an_hour_on = datetime.now(UTC) + timedelta(hours=1)
    scheduler._scheduler.modify_job("t", next_run_time=an_hour_on)
    clock.offset_s = -3600.0
    ran.clear()
    assert ran.wait(HANGS_S)
    scheduler.stop()


HANGING = """
import threading, sys
from otel_ofu.app.scheduler import Scheduler
begun = threading.Event()
def hang(now_s):
    begun.set()
    threading.Event().wait()
scheduler = Scheduler()
scheduler.every("hangs", 0.1, hang)
scheduler.start()
begun.wait()
scheduler.stop()
print("stopped", flush=True)
"""


def test_a_tick_that_hangs_does_not_keep_the_process_after_stop() -> None:
    command = [sys.executable, "-c", HANGING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "stopped\n"
            assert process.wait(HANGS_S) == 0
        finally:
            process.kill()
