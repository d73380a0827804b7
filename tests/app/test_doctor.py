"""What `doctor` reads of a source that is slow, on virtual time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from otel_ofu.app.doctor import ANSWER_S, second_readings
from otel_ofu.model import Device, Reading, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.errors import SourceError, SourceUnavailable


class Slow:
    """Answers from `at_s` on; until then each read waits for 0.8 s and fails."""

    name = "slow"

    def __init__(self, clock: VirtualClock, at_s: float) -> None:
        self.clock = clock
        self.at_s = clock.monotonic_s() + at_s

    def read(self, now_s: float) -> Sequence[Reading]:
        if self.clock.monotonic_s() < self.at_s:
            self.clock.advance(0.8)
            raise SourceError("host engine did not answer")
        return [Reading(Device("GPU-0"), Window(now_s - 1.0, now_s), "slow", {})]

    def close(self) -> None:
        """Nothing is held."""


class Absent(Slow):
    def read(self, now_s: float) -> Sequence[Reading]:
        raise SourceUnavailable("no driver")


def test_a_source_that_needs_seconds_to_start_is_waited_for() -> None:
    clock = VirtualClock(1000.0)
    (reading,) = second_readings(Slow(clock, 10.0), clock, 1.0, clock.advance)
    assert reading.device.uuid == "GPU-0"
    assert clock.monotonic_s() < ANSWER_S


def test_a_source_that_stays_silent_is_told_with_the_time_that_it_had() -> None:
    clock = VirtualClock(1000.0)
    with pytest.raises(SourceError, match=f"^no answer within {ANSWER_S:g} s: host engine did not"):
        second_readings(Slow(clock, 60.0), clock, 1.0, clock.advance)


def test_what_does_not_change_by_itself_is_not_waited_for() -> None:
    clock = VirtualClock(1000.0)
    with pytest.raises(SourceUnavailable):
        second_readings(Absent(clock, 0.0), clock, 1.0, clock.advance)
    assert clock.now_s() == 1000.0
