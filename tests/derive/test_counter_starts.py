"""Counters that appear with their first event begin with the last reading that had none."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.model import Gap, GapReason, Observation
from otel_ofu.model.clock import VirtualClock
from otel_ofu.store import Store
from tests.derive.readings import BUSY, reading

AWAY = Gap(GapReason.FAILED, "away")
NONE = BUSY
ONE = BUSY | {"xid:79": 1.0}


class Life:
    """Readings of one GPU, 10 s each."""

    def __init__(self) -> None:
        self.deriver = Deriver(DeriverSettings())
        self.end_s = 1_000_000.0

    def see(
        self, values: Mapping[str, float], job: str = "", gaps: Mapping[str, Gap] | None = None
    ) -> Observation:
        owner = {"ofu.job.id": job} if job else {}
        read = reading(values, start_s=self.end_s, gaps=gaps, owner=owner)
        self.end_s = read.window.end_s
        seen = self.deriver.derive(read)
        self.deriver.retain([seen.entity.id])
        return seen


def start_s(seen: Observation) -> float | None:
    return seen.starts_s.get("xid:79")


def test_a_first_xid_begins_with_the_reading_before_and_keeps_its_start() -> None:
    life = Life()
    before = life.see(NONE)
    assert start_s(life.see(ONE)) == before.window.end_s
    assert start_s(life.see(BUSY | {"xid:79": 2.0})) == before.window.end_s
    assert start_s(life.see({}, gaps={"xid:79": AWAY})) is None
    assert start_s(life.see(BUSY | {"xid:79": 3.0})) == before.window.end_s


def test_what_is_there_in_the_first_reading_has_no_start() -> None:
    life = Life()
    seen = [life.see(values) for values in (ONE, ONE, NONE, ONE)]
    assert [start_s(each) for each in seen] == [None] * 4


def test_a_counter_that_fell_begins_anew_with_the_reading_before() -> None:
    life = Life()
    life.see(BUSY | {"xid:79": 3.0})
    before = life.see(BUSY | {"xid:79": 3.0})
    assert start_s(life.see(ONE)) == before.window.end_s
    assert start_s(life.see(BUSY | {"xid:79": 2.0})) == before.window.end_s


def test_a_reading_that_failed_says_nothing_of_absence() -> None:
    life = Life()
    life.see({}, gaps=dict.fromkeys(BUSY, AWAY))
    assert start_s(life.see(ONE)) is None
    life = Life()
    before = life.see(NONE)
    life.see({}, gaps=dict.fromkeys(BUSY, AWAY))
    assert start_s(life.see(ONE)) == before.window.end_s


def test_a_counter_that_was_a_gap_was_not_zero() -> None:
    life = Life()
    life.see(BUSY, gaps={"xid:79": AWAY})
    assert start_s(life.see(ONE)) is None


@pytest.mark.parametrize("key", ["energy", "ecc_corrected", "throttle_time:power"])
def test_a_counter_that_is_there_without_events_has_no_start_when_it_appears(key: str) -> None:
    life = Life()
    life.see(BUSY)
    assert key not in life.see(BUSY | {key: 7.0}).starts_s


def test_an_xid_that_ends_a_job_is_told_of_whoever_has_the_gpu_then() -> None:
    life = Life()
    before = life.see(NONE, "7")
    assert start_s(life.see(ONE)) == before.window.end_s


def test_the_xid_of_a_job_is_not_told_of_the_next_one() -> None:
    life = Life()
    life.see(NONE, "7")
    life.see(ONE, "7")
    assert start_s(life.see(ONE, "8")) is None


def increments(*values: Mapping[str, float]) -> list[float]:
    """What the store keeps of the counter, reading by reading."""
    life, clock = Life(), VirtualClock(1_000_000.0)
    store = Store(load_registry(), clock=clock)
    for each in values:
        seen = life.see(each)
        clock.set(seen.window.end_s)
        store.write([seen])
    block = store.block("gpu", "xid:79", 1_000_000.0, life.end_s)
    return [float(value) for value in block.array()[:, 0]]


def test_the_store_counts_the_first_event_and_not_an_unknown_past() -> None:
    assert increments(NONE, NONE, BUSY | {"xid:79": 2.0}, BUSY | {"xid:79": 3.0})[2:] == [2, 1]
    first, second = increments(ONE, BUSY | {"xid:79": 3.0})
    assert math.isnan(first)
    assert second == 2


def test_a_counter_that_falls_was_reset_after_the_reading_before() -> None:
    life = Life()
    energy = [life.see(BUSY | {"energy": joules}) for joules in (500.0, 600.0, 20.0, 90.0)]
    starts = [seen.starts_s.get("energy") for seen in energy]
    assert starts == [None, None, energy[1].window.end_s, energy[1].window.end_s]


def test_an_impossible_total_is_no_reset() -> None:
    life = Life()
    energy = [life.see(BUSY | {"energy": joules}) for joules in (500.0, -1.0, 600.0)]
    assert [seen.starts_s.get("energy") for seen in energy] == [None, None, None]
