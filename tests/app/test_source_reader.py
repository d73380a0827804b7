"""How a source that fails, dies or hangs looks from outside."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence

import pytest

from otel_ofu.app.source_reader import REBUILD_AFTER_S, ReadResult, SourceConnection, ThreadReader
from otel_ofu.model import Device, Reading, Trouble, Window
from otel_ofu.model.clock import SystemClock, VirtualClock
from otel_ofu.model.errors import SourceError, SourceUnavailable
from tests.waiting import HANGS_S, wait_until


def reading(now_s: float) -> Reading:
    return Reading(Device("GPU-1"), Window(now_s - 1, now_s), "fake", {"power": 100.0})


class FakeSource:
    """Does what the script says at each read: a value is returned, an exception raised."""

    name = "fake"

    def __init__(self, script: Callable[[float], Sequence[Reading]]) -> None:
        self.script = script
        self.closed = 0

    def read(self, now_s: float) -> Sequence[Reading]:
        return self.script(now_s)

    def close(self) -> None:
        self.closed += 1


def fails(_now_s: float) -> Sequence[Reading]:
    raise SourceError("GPU is lost")


def test_an_answer_carries_the_readings() -> None:
    reader = SourceConnection(lambda: FakeSource(lambda now_s: [reading(now_s)]), VirtualClock())
    assert reader.read(5.0).readings == [reading(5.0)]


def test_a_source_that_needs_long_to_start_is_not_closed_by_quick_rounds() -> None:
    clock = VirtualClock()
    source = FakeSource(fails)
    reader = SourceConnection(lambda: source, clock)
    for _ in range(50):
        assert reader.read(0.0).failure == "failed"
        clock.advance(0.5)
    assert source.closed == 0


class Partial(FakeSource):
    """Reports what it reads from, as of its last read."""

    def troubles(self) -> Sequence[Trouble]:
        return [Trouble("b", "failed", "refused")]

    def targets(self) -> Mapping[str, bool]:
        return {"a": True, "b": False}


@pytest.mark.parametrize("script", [lambda now_s: [reading(now_s)], fails])
def test_what_failed_of_a_source_comes_beside_its_readings_and_its_failure(
    script: Callable[[float], Sequence[Reading]],
) -> None:
    answer = SourceConnection(lambda: Partial(script), VirtualClock()).read(1.0)
    assert answer.troubles == (Trouble("b", "failed", "refused"),)
    assert answer.targets == {"a": True, "b": False}


def test_a_source_without_the_optional_methods_reports_nothing_more() -> None:
    answer = SourceConnection(lambda: FakeSource(lambda _now_s: []), VirtualClock()).read(1.0)
    assert (answer.troubles, answer.targets) == ((), {})


def test_a_source_that_fails_three_times_is_closed_and_opened_anew_after_a_while() -> None:
    clock = VirtualClock()
    made: list[FakeSource] = []

    def factory() -> FakeSource:
        made.append(FakeSource(fails if len(made) == 0 else lambda now_s: [reading(now_s)]))
        return made[-1]

    reader = SourceConnection(factory, clock)
    failures = []
    for _ in range(4):
        failures.append(reader.read(0.0).failure)
        clock.advance(REBUILD_AFTER_S / 2 if len(failures) < 3 else 0.0)
    assert failures == ["failed", "failed", "failed", "unavailable"]
    assert (len(made), made[0].closed) == (1, 1)
    clock.advance(1.0)
    assert reader.read(1.0).readings == [reading(1.0)]
    assert len(made) == 2


def test_opening_is_tried_again_ever_more_slowly_up_to_a_minute() -> None:
    clock = VirtualClock()
    attempts: list[float] = []

    def factory() -> FakeSource:
        attempts.append(clock.now_s())
        raise SourceUnavailable("no driver")

    reader = SourceConnection(factory, clock)
    for _ in range(300):
        assert reader.read(clock.now_s()).message == "no driver"
        clock.advance(1.0)
    gaps = [b - a for a, b in itertools.pairwise(attempts)]
    assert gaps == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_bug_in_a_source_is_an_answer_too() -> None:
    def broken(_now_s: float) -> Sequence[Reading]:
        raise KeyError("uuid")

    reader = SourceConnection(lambda: FakeSource(broken), VirtualClock())
    assert reader.read(0.0).message == "KeyError: 'uuid'"


def answered(answer: ReadResult) -> ReadResult | None:
    return answer if answer.readings else None


def test_a_call_that_hangs_is_late_until_it_ends_and_its_answer_is_dropped() -> None:
    release = threading.Event()
    calls: list[float] = []

    def hang_first(now_s: float) -> Sequence[Reading]:
        calls.append(now_s)
        if len(calls) == 1:
            release.wait(HANGS_S)
        return [reading(now_s)]

    reader = ThreadReader("fake", lambda: FakeSource(hang_first), SystemClock())
    assert reader.read(1.0, 0.02).message == "no answer for 0.0 s"
    assert reader.read(2.0, 0.02).failure == "late"
    release.set()
    answer = wait_until(lambda: answered(reader.read(3.0, HANGS_S)), "an answer")
    assert answer is not None
    assert answer.readings == [reading(3.0)]
    assert calls[:2] == [1.0, 3.0]
    reader.close(HANGS_S)


def test_closing_does_not_wait_for_a_call_that_hangs() -> None:
    release = threading.Event()

    def hang(_now_s: float) -> Sequence[Reading]:
        release.wait(HANGS_S)
        return []

    reader = ThreadReader("fake", lambda: FakeSource(hang), SystemClock())
    reader.read(1.0, 0.01)
    reader.close(0.05)
    release.set()


@pytest.mark.parametrize("count", [1, 3])
def test_closing_closes_the_source_in_its_own_thread(count: int) -> None:
    seen: list[str] = []

    class Closing(FakeSource):
        def close(self) -> None:
            seen.append(threading.current_thread().name)

    reader = ThreadReader("fake", lambda: Closing(lambda now_s: [reading(now_s)]), SystemClock())
    for _ in range(count):
        reader.read(1.0, HANGS_S)
    reader.close(HANGS_S)
    assert seen == ["source-fake"]


def test_what_a_source_costs_comes_with_its_readings() -> None:
    class Costly(FakeSource):
        def costs(self) -> dict[str, float]:
            return {"clock_sampler_time": 0.5}

    connection = SourceConnection(lambda: Costly(lambda now_s: [reading(now_s)]), VirtualClock())
    assert connection.read(0.0).costs == {"clock_sampler_time": 0.5}
