"""What the source does with a client that is late, silent or dead, on virtual time."""

from __future__ import annotations

import math
from collections import deque

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Device, GapReason
from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.errors import SourceError, SourceUnavailable
from otel_ofu.sources.dcgm.child import ChannelClosedError
from otel_ofu.sources.dcgm.settings import DcgmSettings
from otel_ofu.sources.dcgm.source import DcgmSource
from otel_ofu.sources.dcgm.wire import (
    DcgmSample,
    DcgmTarget,
    FailureReply,
    ReadRequest,
    Reply,
    Request,
    SamplesReply,
    StartRequest,
)

DEAD = "dead"


class Script:
    """Channels that answer what a test lays out; None is a reply that does not come in time."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.replies: deque[Reply | str | None] = deque()
        self.sent: list[Request] = []
        self.waited: list[float] = []
        self.stops: list[float] = []
        self.launched = 0

    def launch(self) -> Script:
        self.launched += 1
        return self

    def send(self, request: Request) -> None:
        self.sent.append(request)

    def receive(self, timeout_s: float) -> Reply | None:
        self.waited.append(timeout_s)
        reply = self.replies.popleft() if self.replies else None
        if isinstance(reply, str):
            raise ChannelClosedError("the DCGM client process ended (status -9)")
        if reply is None:
            self.clock.advance(timeout_s)
        return reply

    def stop(self, grace_s: float) -> None:
        self.stops.append(grace_s)

    def asked(self) -> list[ReadRequest]:
        return [r for r in self.sent if isinstance(r, ReadRequest)]


class Bench:
    def __init__(self, interval_s: float = 10.0) -> None:
        self.clock = VirtualClock(1000.0)
        self.script = Script(self.clock)
        self.source = DcgmSource(
            DcgmSettings(),
            registry=load_registry(),
            clock=self.clock,
            interval_s=interval_s,
            launch=self.script.launch,
        )

    def read(self, *replies: Reply | str | None) -> object:
        self.script.replies.extend(replies)
        self.clock.set(self.next_tick_s())
        return self.source.read(self.clock.now_s())

    def next_tick_s(self) -> float:
        return math.ceil((self.clock.now_s() + 0.001) / 10) * 10

    def reply(self, epoch: int = 1, mhz: int = 1410) -> SamplesReply:
        sample = DcgmSample(100, 0, round((self.next_tick_s() - 1) * 1e6), mhz)
        return SamplesReply(
            epoch=epoch,
            targets=[DcgmTarget(device=Device(uuid="GPU-0"))],
            of_target=[[sample]],
            watched_since_s=990.0,
        )


def gap_text(readings: object) -> str:
    assert isinstance(readings, list)
    gap = readings[0].gaps["tensor_active"]
    assert gap.reason is GapReason.FAILED
    return str(gap.detail)


def test_the_child_is_told_what_to_read_before_it_is_asked() -> None:
    bench = Bench()
    bench.read(bench.reply())
    start, ask = bench.script.sent
    assert isinstance(start, StartRequest)
    assert start.fields[:3] == [1004, 100, 113]
    assert {112, 230, 240, 246, 1084, 1096} <= set(start.fields)
    assert (start.watch_s, start.clock_s) == (5.0, 1.0)
    assert ask == ReadRequest(0)


def test_a_late_child_costs_gaps_and_never_more_than_the_interval() -> None:
    bench = Bench()
    bench.read(bench.reply())
    assert gap_text(bench.read(None)) == "host engine did not answer for 8 s"
    assert max(bench.script.waited) < 10


def test_a_late_answer_is_taken_at_the_next_tick_and_not_asked_for_twice() -> None:
    bench = Bench()
    bench.read(bench.reply())
    bench.read(None)
    asked = len(bench.script.asked())
    readings = bench.read(bench.reply(mhz=1500))
    assert isinstance(readings, list)
    assert readings[0].values["sm_clock"] == 1500e6
    assert len(bench.script.asked()) == asked


def test_a_child_that_was_never_heard_of_is_an_error_not_silence() -> None:
    with pytest.raises(SourceError, match="did not answer for 8 s"):
        Bench().read(None)


def test_a_silent_child_is_killed_and_started_again_after_a_while() -> None:
    bench = Bench()
    bench.read(bench.reply())
    texts = [gap_text(bench.read(None)) for _ in range(4)]
    assert "client process was ended" in texts[-1]
    assert bench.script.stops == [0.0]
    assert "being started again" in gap_text(bench.read())
    assert bench.script.launched == 1
    readings = bench.read(bench.reply())
    assert isinstance(readings, list)
    assert "sm_clock" in readings[0].values
    assert bench.script.launched == 2


def test_a_child_that_dies_again_and_again_is_started_less_often() -> None:
    bench = Bench()
    bench.read(bench.reply())
    for _ in range(60):
        bench.script.replies.clear()
        gap_text(bench.read(DEAD))
    assert bench.script.launched <= 14


def test_the_words_of_a_dead_child_are_the_reason() -> None:
    bench = Bench()
    bench.read(bench.reply())
    assert "ended (status -9)" in gap_text(bench.read(DEAD))


def test_a_new_child_is_asked_for_everything() -> None:
    bench = Bench()
    bench.read(bench.reply(epoch=7))
    bench.read(bench.reply(epoch=7))
    assert bench.script.asked()[-1] == ReadRequest(7)
    bench.read(DEAD)
    bench.read(bench.reply())
    assert bench.script.asked()[-1] == ReadRequest(0)


def test_samples_used_before_a_restart_of_the_child_are_not_used_again() -> None:
    bench = Bench()
    reply = bench.reply()
    bench.read(reply)
    bench.read(DEAD)
    readings = bench.read(reply)
    assert isinstance(readings, list)
    assert readings[0].gaps["sm_clock"].reason is GapReason.STALE


def test_what_cannot_change_by_itself_is_unavailable_with_its_remedy() -> None:
    with pytest.raises(SourceUnavailable, match="no bindings") as caught:
        Bench().read(FailureReply(message="no bindings", remedy="install them", unavailable=True))
    assert caught.value.remedy == "install them"


@pytest.mark.parametrize("interval_s", [0.05, 0.0, -1.0, math.nan])
def test_intervals_that_dcgm_cannot_do_are_refused(interval_s: float) -> None:
    with pytest.raises(SourceUnavailable, match=r"below 0\.1 s"):
        Bench(interval_s)


def test_an_address_that_means_nothing_fails_at_the_start() -> None:
    with pytest.raises(SourceUnavailable, match="http://x"):
        DcgmSource(
            DcgmSettings(address="http://x"),
            registry=load_registry(),
            clock=VirtualClock(),
            interval_s=10,
        )


def test_closing_before_the_first_read_starts_nothing() -> None:
    bench = Bench()
    bench.source.close()
    assert bench.script.launched == 0
