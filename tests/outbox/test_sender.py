"""The sender empties its queue in order, waits when it has to, and counts everything."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.export.request import halves
from otel_ofu.model.clock import Clock, SystemClock, VirtualClock
from otel_ofu.outbox.batch import Body, Limits, Priority
from otel_ofu.outbox.outcome import Delivered, Outcome, Refused, TooLarge, Unavailable
from otel_ofu.outbox.queues import Outbox, Queue
from otel_ofu.outbox.sender import Backoff, Sender
from tests.export.samples import body, points, values
from tests.waiting import HANGS_S

Said = list[tuple[str, str, int]]


@dataclass
class ScriptedTransport:
    """Gives the next outcome, and Delivered once they are used up. Keeps what was delivered."""

    outcomes: list[Outcome | Exception | Callable[[Body], Outcome]] = field(default_factory=list)
    delivered: list[Body] = field(default_factory=list)
    limits_s: list[float] = field(default_factory=list)
    closed: int = 0
    endpoint: str = "http://backend/v1/metrics"

    def send(self, body: Body, limit_s: float) -> Outcome:
        self.limits_s.append(limit_s)
        outcome = self.outcomes.pop(0) if self.outcomes else Delivered()
        if isinstance(outcome, Exception):
            raise outcome
        if callable(outcome):
            outcome = outcome(body)
        if isinstance(outcome, Delivered):
            self.delivered.append(body)
        return outcome

    def halves(self, body: Body) -> tuple[Body, Body] | None:
        return halves(body)

    def close(self) -> None:
        self.closed += 1


@dataclass
class Rig:
    queue: Queue
    transport: ScriptedTransport
    clock: VirtualClock
    sender: Sender
    said: Said

    def settle(self) -> None:
        """Steps until the queue is empty, in virtual time."""
        while (wait_s := self.sender.step()) is not None:
            self.clock.advance(wait_s)


@contextmanager
def rig(
    *outcomes: Outcome | Exception | Callable[[Body], Outcome],
    path: Path | None = None,
    limits: Limits | None = None,
) -> Iterator[Rig]:
    clock, transport, said = VirtualClock(1000.0), ScriptedTransport(list(outcomes)), Said()
    with closing(Outbox(path, {"otlp": limits or Limits()}, clock)) as outbox:
        queue = outbox.queues["otlp"]
        sender = Sender(
            queue, {"metrics": transport}, clock, Backoff(1.0, 8.0), lambda *s: said.append(s)
        )
        yield Rig(queue, transport, clock, sender, said)


def test_bodies_arrive_in_order_and_are_gone() -> None:
    with rig() as r:
        for number in range(3):
            r.queue.put(body(number))
        r.settle()
        assert values(r.transport.delivered) == [0, 1, 2]
        stats = r.sender.stats()
        assert (stats.sent, stats.retries, stats.error) == (3, 0, "")
        assert (len(r.queue), stats.queue.size_bytes) == (0, 0)
        assert r.said == [("otlp", "sent", 1)] * 3


def test_an_outage_is_waited_out_with_growing_pauses_and_nothing_is_lost() -> None:
    down = Unavailable("Connection refused")
    with rig(*[down] * 200) as r:
        pauses: list[float] = []
        for second in range(600):
            r.queue.put(body(second))
            if r.sender.step() == 0.0:
                pauses.append(r.sender.step() or 0.0)
            r.clock.advance(1.0)
        r.transport.outcomes.clear()
        r.settle()
        assert values(r.transport.delivered) == list(range(600))
        assert r.sender.stats().dropped == {}
        assert all(4.0 <= pause <= 8.0 for pause in pauses[4:])
        assert 600 / 8 <= len(pauses) <= 600 / 4 + 5


def test_a_put_does_not_shorten_the_pause() -> None:
    with rig(Unavailable("busy", 30.0)) as r:
        r.queue.put(body())
        assert (r.sender.step(), r.sender.step()) == (0.0, 30.0)
        r.clock.advance(10.0)
        r.queue.put(body())
        assert r.sender.step() == 20.0
        assert len(r.transport.limits_s) == 1


def test_an_event_overtakes_metrics_that_wait() -> None:
    with rig(Unavailable("busy", 10.0)) as r:
        r.queue.put(body(1))
        r.sender.step()
        r.queue.put(body(2), Priority.EVENTS)
        assert (r.sender.step(), r.sender.step()) == (0.0, 10.0)
        assert values(r.transport.delivered) == [2]
        r.clock.advance(10.0)
        r.settle()
        assert values(r.transport.delivered) == [2, 1]


def test_a_backend_that_takes_no_events_still_gets_its_metrics() -> None:
    event = Body("logs", body().gzipped, 1)
    logs = ScriptedTransport([Unavailable("full", 10.0)], endpoint="http://backend/v1/logs")
    with rig() as r:
        r.sender._transports = {"metrics": r.transport, "logs": logs}
        r.queue.put(event, Priority.EVENTS)
        r.queue.put(body(2))
        r.queue.put(body(3))
        assert [r.sender.step() for _ in range(4)] == [0.0, 0.0, 0.0, 10.0]
        assert values(r.transport.delivered) == [2, 3]
        expected = "logs to http://backend/v1/logs: full; kept and tried again"
        assert r.sender.stats().error == expected
        r.clock.advance(10.0)
        r.settle()
        assert logs.delivered == [event]
        assert r.sender.stats().error == ""


def test_what_grows_too_old_during_an_outage_is_dropped_and_counted() -> None:
    with rig(Unavailable("down", 100.0), limits=Limits(max_age_s=60.0)) as r:
        r.queue.put(body(1))
        r.sender.step()
        r.clock.advance(100.0)
        r.queue.put(body(2))
        r.settle()
        assert values(r.transport.delivered) == [2]
        assert r.sender.stats().dropped == {"expired": 1}


def test_what_is_refused_is_counted_and_the_next_one_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with rig(*[Refused("HTTP 400 Bad Request")] * 3) as r:
        for number in range(4):
            r.queue.put(body(number, gpus=2))
        r.settle()
        assert len(r.transport.delivered) == 1
        stats = r.sender.stats()
        assert stats.dropped == {"refused": 6}
        assert r.said == [("otlp", "dropped", 2)] * 3 + [("otlp", "sent", 2)]
    assert len(caplog.records) == 1
    assert "metrics to http://backend/v1/metrics: points were dropped: HTTP 400" in caplog.text


def test_a_partial_success_counts_what_was_rejected() -> None:
    with rig(Delivered(2, "too old"), Delivered(999)) as r:
        r.queue.put(body(gpus=5))
        r.sender.step()
        assert "too old" in r.sender.stats().error
        r.queue.put(body(gpus=5))
        r.settle()
        assert (r.sender.stats().sent, r.sender.stats().rejected) == (3, 7)


def test_too_large_is_halved_until_it_fits_in_order() -> None:
    def small_only(sent: Body) -> Outcome:
        return Delivered() if sent.points <= 2 else TooLarge("HTTP 413")

    with rig(*[small_only] * 50) as r:
        r.queue.put(body(gpus=9))
        r.settle()
        assert [s.points for s in r.transport.delivered] == [2, 2, 2, 1, 2]
        owners = [owner for owner, _, _ in points(r.transport.delivered)]
        assert owners == [f"GPU-{i}/77" for i in range(9)]
        assert r.sender.stats().sent == 9


def test_a_single_resource_that_is_too_large_is_dropped_and_counted() -> None:
    with rig(TooLarge("HTTP 413"), TooLarge("HTTP 413")) as r:
        r.queue.put(body(gpus=2))
        r.settle()
        assert (r.sender.stats().dropped, r.sender.stats().sent) == ({"too_large": 1}, 1)


def test_halves_that_were_delivered_are_not_sent_again_after_a_failure() -> None:
    with rig(TooLarge("413"), Delivered(), Unavailable("down", 5.0)) as r:
        r.queue.put(body(gpus=4))
        assert (r.sender.step(), r.sender.step()) == (0.0, 5.0)
        assert len(r.queue) == 1
        assert r.said[-1] == ("otlp", "failed", 2)
        r.clock.advance(5.0)
        r.settle()
        owners = [owner for owner, _, _ in points(r.transport.delivered)]
        assert owners == [f"GPU-{i}/77" for i in range(4)]


def test_a_transport_that_fails_in_itself_does_not_end_the_sender(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with rig(RuntimeError("bug"), FileNotFoundError(2, "No such file")) as r:
        r.queue.put(body(1))
        r.settle()
        assert values(r.transport.delivered) == [1]
        assert r.sender.stats().retries == 2
    assert "RuntimeError: bug; kept and tried again" in caplog.text


def test_a_body_that_cannot_be_read_does_not_block_the_others() -> None:
    with rig(zlib.error("incorrect header check")) as r:
        r.queue.put(body(1))
        r.queue.put(body(2))
        r.settle()
        assert values(r.transport.delivered) == [2]
        assert r.sender.stats().dropped == {"refused": 1}


def test_a_signal_without_an_endpoint_is_dropped_and_counted() -> None:
    with rig() as r:
        r.queue.put(Body("logs", b"", 3))
        r.settle()
        assert r.sender.stats().dropped == {"refused": 3}


def test_each_cause_is_said_once_an_outage_and_its_end_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with rig(*[Unavailable("refused")] * 5, Unavailable("reset")) as r:
        r.queue.put(body())
        r.settle()
        r.transport.outcomes.append(Unavailable("refused"))
        r.queue.put(body())
        r.settle()
    words = [m.removeprefix("export otlp: ") for m in caplog.messages]
    down = "metrics to http://backend/v1/metrics: {}; kept and tried again"
    again = "metrics to http://backend/v1/metrics: works again"
    assert words == [down.format("refused"), down.format("reset"), again,
                     down.format("refused"), again]  # fmt: skip


def test_a_drain_ends_at_once_when_a_durable_queues_backend_is_away(tmp_path: Path) -> None:
    with rig(Unavailable("down"), path=tmp_path / "outbox.sqlite") as r:
        r.queue.put(body())
        r.queue.put(body())
        r.sender.drain(5.0)
        assert len(r.queue) == 2
        assert len(r.transport.limits_s) == 1


def test_a_drain_does_not_wait_for_an_earlier_backoff_and_keeps_to_its_deadline() -> None:
    def takes_three(_: Body) -> Outcome:
        r.clock.advance(3.0)
        return Delivered()

    with rig(Unavailable("busy", 300.0), *[takes_three] * 5) as r:
        for number in range(5):
            r.queue.put(body(number))
        r.sender.step()
        r.sender.drain(5.0)
        assert r.transport.limits_s[1:] == [5.0, 2.0]
        assert len(r.queue) == 3


@contextmanager
def running(
    transport: ScriptedTransport, path: Path | None = None, clock: Clock | None = None
) -> Iterator[tuple[Queue, Sender]]:
    with closing(Outbox(path, {"otlp": Limits()}, SystemClock())) as outbox:
        queue = outbox.queues["otlp"]
        yield queue, Sender(queue, {"metrics": transport}, SystemClock(), Backoff(0.01, 0.02))


def test_the_thread_wakes_for_a_put_and_a_shutdown_sends_the_rest() -> None:
    transport = ScriptedTransport()
    with running(transport) as (queue, sender):
        sender.start()
        for number in range(20):
            queue.put(body(number))
        assert sender.shutdown(HANGS_S) == 0
    assert values(transport.delivered) == list(range(20))
    assert transport.closed == 1


def test_a_shutdown_without_a_folder_tries_until_its_deadline() -> None:
    transport = ScriptedTransport([Unavailable("busy")] * 3)
    with running(transport) as (queue, sender):
        queue.put(body())
        sender.start()
        assert sender.shutdown(HANGS_S) == 0
    assert len(transport.delivered) == 1


def test_a_shutdown_does_not_wait_for_a_call_that_hangs(tmp_path: Path) -> None:
    entered, gate = threading.Event(), threading.Event()

    def hangs(_: Body) -> Outcome:
        entered.set()
        gate.wait(HANGS_S)
        return Delivered()

    with running(ScriptedTransport([hangs]), tmp_path / "outbox.sqlite") as (queue, sender):
        queue.put(body())
        sender.start()
        assert entered.wait(HANGS_S)
        assert sender.shutdown(0.1) == 1
    gate.set()
    sender._thread.join(HANGS_S)
    assert not sender._thread.is_alive()


def test_senders_that_were_all_told_to_stop_end_at_the_same_time() -> None:
    transports = [ScriptedTransport(), ScriptedTransport()]
    with running(transports[0]) as (_, first), running(transports[1]) as (queue, second):
        first.start()
        second.start()
        queue.put(body())
        for sender in (first, second):
            sender.stop(HANGS_S)
        assert (first.shutdown(HANGS_S), second.shutdown(HANGS_S)) == (0, 0)
    assert [t.closed for t in transports] == [1, 1]


def test_a_shutdown_before_the_start_is_fine() -> None:
    with running(ScriptedTransport()) as (queue, sender):
        queue.put(body())
        assert sender.shutdown(1.0) == 1


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_backoff_doubles_within_its_bounds(failures: int, chance: float) -> None:
    delay_s = Backoff(1.0, 30.0).delay_s(failures, chance)
    whole_s = min(30.0, 2.0 ** min(failures - 1, 20))
    assert whole_s / 2 <= delay_s <= whole_s
