"""What does not wait for a round: XIDs, from a source to the history, OTLP and the page."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from otel_ofu.app.sampler import EventSource, Sampler
from otel_ofu.app.source_reader import ReadResult, ThreadReader
from otel_ofu.catalog.registry import load_registry
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.export.prometheus import PageOptions, PrometheusPage
from otel_ofu.model import Device, Observation, Owner, Reading, Window
from otel_ofu.model.clock import SystemClock
from tests.app.test_sampler import Counts
from tests.export.samples import points
from tests.waiting import HANGS_S, wait_until

START_S = 1_700_000_000.0
OWNER = (Owner({"ofu.job.id": "7"}),)
LOG = 64
NO_RECORDED_VALUE = 1


def reading(end_s: float, **values: float) -> Reading:
    found = {"power": 100.0, **{k.replace("__", ":"): v for k, v in values.items()}}
    return Reading(Device("GPU-1"), Window(end_s - 10, end_s), "nvml", found, owners=OWNER)


def event(at_s: float, count: float) -> Reading:
    return Reading(Device("GPU-1"), Window(at_s, at_s), "nvml", {"xid:79": count}, owners=OWNER)


class Rounds:
    """A reader whose readings are scripted, and an agent's exporters behind it."""

    def __init__(self) -> None:
        registry = load_registry()
        self.next = ReadResult()
        self.pending: list[Reading] = []
        self.while_reading: Sequence[Reading] = ()
        deriver = Deriver(DeriverSettings())
        self.sampler = Sampler(self, deriver, self._round, budget_s=1.0, meter=Counts())
        self.sampler.events = EventSource(self._events, deriver.events, self._between)
        self.encoder = MetricEncoder(registry, {}, EncoderOptions(START_S))
        self.page = PrometheusPage(registry, {}, PageOptions(10.0))
        self.sent: list[tuple[str, float, float, int]] = []
        self.entities: set[str] = set()

    def read(self, now_s: float, budget_s: float) -> Sequence[ReadResult]:
        if self.while_reading:
            self.poll(*self.while_reading)
        return [self.next]

    def close(self, deadline_s: float) -> None:
        """Nothing is held."""

    def round(self, *readings: Reading) -> None:
        self.next = ReadResult(readings, source="nvml")
        self.sent.clear()
        self.sampler.tick(readings[0].window.end_s)

    def poll(self, *events: Reading) -> None:
        self.pending += events
        self.sampler.poll_events(events[0].window.end_s)

    def xids(self) -> list[tuple[float, float, int]]:
        """Seconds since the start, count, and whether the series ends, of all that was sent."""
        return [
            (time_s - START_S, value, flags)
            for name, time_s, value, flags in self.sent
            if name == "hw.errors"
        ]

    def on_page(self, now_s: float) -> list[str]:
        lines = self.page.text(now_s).splitlines()
        return [line.rpartition(" ")[2] for line in lines if line.startswith("hw_errors_total{")]

    def _events(self) -> Sequence[Reading]:
        events, self.pending = self.pending, []
        return events

    def _round(self, observations: Sequence[Observation]) -> None:
        self.page.update(observations)
        self._send(self.encoder.encode(observations), observations)

    def _between(self, observations: Sequence[Observation]) -> None:
        self.page.add(observations)
        self._send(self.encoder.encode_between(observations), observations)

    def _send(self, bodies: Sequence[object], observations: Sequence[Observation]) -> None:
        self.entities |= {observation.entity.id for observation in observations}
        self.sent += [
            (name, point.time_unix_nano / 1e9, point.as_double, point.flags)
            for _, name, point in points(bodies)  # type: ignore[arg-type]
        ]


def test_an_xid_between_two_rounds_goes_out_at_once_and_ends_no_series() -> None:
    rounds = Rounds()
    rounds.round(reading(START_S + 10))
    rounds.sent.clear()
    rounds.poll(event(START_S + 13, 1.0))
    assert rounds.sent == [
        ("hw.errors", START_S + 10, 0.0, 0),
        ("hw.errors", START_S + 13, 1.0, 0),
    ]
    assert rounds.on_page(START_S + 14) == ["1.0"]
    assert "hw_power" in rounds.page.text(START_S + 14)
    rounds.round(reading(START_S + 20, xid__79=1.0))
    assert rounds.xids() == [(20, 1, 0)]
    assert rounds.entities == {"GPU-1/7"}


def test_a_round_that_was_read_before_an_xid_does_not_take_it_back() -> None:
    rounds = Rounds()
    rounds.round(reading(START_S + 10, xid__79=1.0))
    rounds.while_reading = [event(START_S + 21, 2.0)]
    rounds.round(reading(START_S + 20, xid__79=1.0))
    assert rounds.xids() == [(21, 2, 0), (20, 2, 0)]
    rounds.while_reading = ()
    rounds.round(reading(START_S + 30, xid__79=2.0))
    assert rounds.xids() == [(30, 2, 0)]
    assert rounds.on_page(START_S + 30) == ["2.0"]


def test_the_first_xid_during_a_round_begins_with_0_once() -> None:
    rounds = Rounds()
    rounds.round(reading(START_S + 10))
    rounds.while_reading = [event(START_S + 21, 1.0)]
    rounds.round(reading(START_S + 20))
    assert rounds.xids() == [(10, 0, 0), (21, 1, 0), (20, 1, 0)]


class Slow:
    """A source whose read hangs, and that has events meanwhile."""

    name = "nvml"

    def __init__(self) -> None:
        self.release = threading.Event()
        self.inside = threading.Event()

    def read(self, _now_s: float) -> Sequence[Reading]:
        self.inside.set()
        self.release.wait(HANGS_S)
        return []

    def events(self) -> Sequence[Reading]:
        return [event(START_S, 1.0)]

    def close(self) -> None:
        self.release.set()


def test_events_come_while_a_read_hangs() -> None:
    source = Slow()
    reader = ThreadReader("nvml", lambda: source, SystemClock())
    assert not reader.events()  # not open yet
    reader.request(START_S)
    wait_until(source.inside.is_set, "the read")
    assert [each.values for each in reader.events()] == [{"xid:79": 1.0}]
    source.release.set()
    reader.close(HANGS_S)
