"""Which sources are open, tried and read, on virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from otel_ofu.app.source_reader import Factory, ReadResult
from otel_ofu.app.source_selector import (
    FIRST_RETRY_S,
    TRIAL_S,
    TRIAL_WAIT_S,
    WAITING_S,
    SelectorOptions,
    SourceSelector,
)
from otel_ofu.model import GapReason, Reading
from otel_ofu.model.clock import Clock, VirtualClock
from otel_ofu.sources import Source
from tests.app.test_source_choice import EMPTY, FAILED, LOCAL, NEVER, OFU, ORDER, gpu

ABSENT = ReadResult(failure="unavailable", message="no engine")
LATE = ReadResult(failure="late", message="no answer")
STEP_S = 10.0


@dataclass
class Reader:
    """Answers what the machine has for it at this moment."""

    name: str
    machine: Machine
    hangs: bool = False
    budgets: list[float] = field(default_factory=list)
    requests: int = 0

    def request(self, now_s: float) -> None:
        self.requests += 1

    def result(self, budget_s: float) -> ReadResult:
        self.budgets.append(budget_s)
        result = self.machine.now[self.name]
        self.hangs = result.failure == "late"
        return replace(result, source=self.name)

    def events(self) -> Sequence[Reading]:
        return [replace(reading, source=self.name) for reading in self.machine.events]

    def close(self, deadline_s: float) -> None:
        self.machine.open.remove(self.name)


class Machine:
    """What each source would give now, and which are open."""

    def __init__(self, first: str = "", **now: ReadResult) -> None:
        self.now = dict.fromkeys(ORDER, ABSENT) | now
        self.events: Sequence[Reading] = ()
        self.open: list[str] = []
        self.readers: list[Reader] = []
        self.clock = VirtualClock()
        sources = dict.fromkeys(ORDER, no_source)
        self.selector = SourceSelector(
            SelectorOptions(sources, first, LOCAL), self.clock, self.opened
        )

    def opened(self, name: str, _factory: Factory, _clock: Clock) -> Reader:
        self.open.append(name)
        self.readers.append(Reader(name, self))
        return self.readers[-1]

    def round(self) -> Sequence[ReadResult]:
        results = self.selector.read(self.clock.now_s(), 8.0)
        self.clock.advance(STEP_S)
        return results

    def rounds(self, seconds: float) -> list[list[str]]:
        """The sources that read, round by round."""
        return [[r.source for r in self.round()] for _ in range(int(seconds / STEP_S))]


def no_source() -> Source:
    raise AssertionError("the reader is a fake")


def test_while_nothing_works_all_are_tried_and_all_say_why() -> None:
    machine = Machine()
    assert machine.rounds(100) == [["dcgm", "nvml", "scrape"]] * 10


def test_a_driver_that_is_loaded_later_is_picked_up_and_the_others_are_let_go() -> None:
    machine = Machine()
    machine.rounds(30)
    machine.now["nvml"] = OFU
    assert machine.rounds(100)[-1] == ["nvml"]
    assert machine.open == ["nvml"]


def test_waiting_is_a_line_a_minute_with_what_was_tried(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine(scrape=ReadResult(failure="failed", message="refused"))
    machine.rounds(3 * WAITING_S)
    assert caplog.messages == [
        "no GPU is read, waiting: dcgm: no engine; nvml: no engine; scrape: refused"
    ] * 2  # fmt: skip
    machine.now["nvml"] = OFU
    caplog.clear()
    machine.rounds(3 * WAITING_S)
    assert caplog.messages == []


def test_a_healthy_engine_alone_is_read_and_pages_are_never_asked() -> None:
    machine = Machine("dcgm", dcgm=OFU, nvml=OFU, scrape=OFU)
    assert machine.rounds(3600)[-1] == ["dcgm"]
    assert machine.open == ["dcgm"]
    assert "scrape" not in [reader.name for reader in machine.readers]


def test_an_engine_that_sees_no_gpu_is_not_used_while_the_driver_sees_them() -> None:
    machine = Machine("dcgm", dcgm=EMPTY, nvml=OFU)
    assert machine.rounds(100)[-1] == ["nvml"]


def test_gpus_that_the_engine_leaves_out_are_read_through_the_driver() -> None:
    both = replace(OFU, readings=[*OFU.readings, *gpu(0.5, "H").readings])
    machine = Machine("dcgm", dcgm=OFU, nvml=both)
    machine.rounds(100)
    read = {r.source: [x.device.uuid for x in r.readings] for r in machine.round()}
    assert read == {"dcgm": ["G"], "nvml": ["H"]}


def test_an_engine_that_is_slow_to_start_is_not_missing_for_ever() -> None:
    machine = Machine("nvml", nvml=OFU, dcgm=LATE)
    machine.rounds(FIRST_RETRY_S)
    machine.now["dcgm"] = OFU
    assert machine.rounds(3 * (TRIAL_S + FIRST_RETRY_S))[-1] == ["dcgm"]


def test_an_engine_that_stops_is_replaced_and_used_again_when_it_is_back() -> None:
    machine = Machine("dcgm", dcgm=OFU, nvml=OFU)
    machine.rounds(100)
    machine.now["dcgm"] = FAILED
    assert machine.rounds(100)[-1] == ["nvml"]
    machine.now["dcgm"] = OFU
    assert machine.rounds(600)[-1] == ["dcgm"]


def test_no_gpu_is_ever_in_two_results() -> None:
    machine = Machine("nvml", nvml=OFU, dcgm=OFU, scrape=OFU)
    for turn in range(200):
        machine.now["dcgm"] = OFU if turn % 60 < 30 else FAILED
        read = [r.device.uuid for result in machine.round() for r in result.readings]
        assert len(read) == len(set(read))


def test_an_event_of_a_gpu_comes_through_the_source_that_reads_it() -> None:
    machine = Machine("nvml", nvml=OFU, dcgm=LATE)
    assert not machine.selector.events()
    machine.round()
    machine.events = OFU.readings
    assert len(machine.open) == 2
    assert [reading.source for reading in machine.selector.events()] == ["nvml"]


def test_a_source_that_is_absent_is_tried_ever_more_rarely() -> None:
    machine = Machine("nvml", nvml=OFU)
    machine.rounds(6 * 3600)
    trials = [reader for reader in machine.readers if reader.name == "dcgm"]
    assert 30 < len(trials) < 45
    assert all(reader.requests == 1 for reader in trials)


def test_a_trial_that_hangs_costs_little_of_a_round_and_never_a_second_thread() -> None:
    machine = Machine("nvml", nvml=OFU, dcgm=LATE)
    machine.rounds(3600)
    (hung,) = [reader for reader in machine.readers if reader.name == "dcgm"]
    assert max(hung.budgets) <= TRIAL_WAIT_S
    assert hung.requests < 60


def test_a_change_is_one_line_for_all_its_gpus(caplog: pytest.LogCaptureFixture) -> None:
    old, new = (
        replace(each, readings=[*each.readings, *other.readings])
        for each, other in ((NEVER, gpu(GapReason.NOT_SUPPORTED, "H")), (OFU, gpu(0.5, "H")))
    )
    machine = Machine("dcgm", dcgm=old)
    machine.rounds(100)
    machine.now["nvml"] = new
    machine.rounds(600)
    assert caplog.messages == ["G, H: read by nvml instead of dcgm: the driver's words"]
