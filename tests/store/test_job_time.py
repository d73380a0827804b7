"""Sums of what the seconds of GPUs gained, by job."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.model import Entity
from otel_ofu.store import EndedEntitySet, FleetState, JobTimeSums
from otel_ofu.store.job_time import FORGET_S

KEYS = ("gpu_time_allocated", "gpu_time_observed")
NAMES = {"gpu_time_allocated": "held", "gpu_time_observed": "seen", "gpu_time_idle": "idle"}
T0 = 1_800_000_000.0
Sample = tuple[str, float, float, float]
"""GPU with its job, seconds since T0, the two counters."""


def put(sums: JobTimeSums, samples: Sequence[Sample]) -> None:
    entities = [Entity("gpu", name, {"ofu.job.id": name.partition("/")[2]}) for name, *_ in samples]
    times_s = np.array([T0 + at_s for _, at_s, *_ in samples])
    values = np.array([pair for *_, a, b in samples for pair in [(a, b)]], np.float64)
    sums.put(entities, KEYS, times_s, values.reshape(-1, 2))


def found(sums: JobTimeSums, job: str = "1") -> list[float]:
    time = sums.totals_of(job, NAMES)
    assert time is not None
    return [time.sums["held"], time.sums["seen"]]


def steady(name: str, ticks: Sequence[int], rate: float = 1.0) -> list[Sample]:
    return [(name, 10.0 * tick, 10.0 * tick * rate, 5.0 * tick * rate) for tick in ticks]


def test_the_first_value_is_where_a_sum_begins() -> None:
    sums = JobTimeSums()
    put(sums, steady("a/1", [7, 8, 9]))
    put(sums, steady("b/1", [0, 1, 2]))
    assert found(sums) == [20.0 + 20.0, 10.0 + 10.0]
    time = sums.totals_of("1", NAMES)
    assert time is not None
    assert (time.start_s, time.seen_s) == (T0 + 70.0, T0 + 90.0)


def test_a_counter_that_comes_after_its_gpu_began_with_0() -> None:
    sums = JobTimeSums()
    put(sums, [("a/1", 0.0, 0.0, np.nan), ("a/1", 10.0, 10.0, 7.0)])
    assert found(sums) == [10.0, 7.0]


def test_a_newer_lower_value_is_a_counter_that_began_anew() -> None:
    sums = JobTimeSums()
    put(sums, [("a/1", 0.0, 100.0, 50.0), ("a/1", 10.0, 4.0, 2.0)])
    assert found(sums) == [4.0, 2.0]


def test_an_older_value_adds_nothing_unless_it_is_higher() -> None:
    sums = JobTimeSums()
    put(sums, [("a/1", 20.0, 20.0, 20.0)])
    put(sums, [("a/1", 10.0, 10.0, 10.0)])
    assert found(sums) == [0.0, 0.0]
    put(sums, [("a/1", 15.0, 30.0, 30.0)])  # the clock of its node was set back
    assert found(sums) == [10.0, 10.0]


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_the_sums_are_the_same_however_samples_are_batched_and_repeated(
    random: object, parts: int
) -> None:
    series = [steady("a/1", range(6)), steady("b/1", range(6), 0.5), steady("c/2", range(6))]
    samples = [sample for at in zip(*series, strict=True) for sample in at]
    repeated = [s for s in samples for _ in range(random.randint(1, 3))]  # type: ignore[attr-defined]
    sums = JobTimeSums()
    size = -(-len(repeated) // parts)
    for first in range(0, len(repeated), size):
        put(sums, repeated[first : first + size])
    assert found(sums, "1") == [75.0, 37.5]
    assert found(sums, "2") == [50.0, 25.0]


def test_what_a_gpu_gained_while_it_was_observed_elsewhere_is_not_counted_here() -> None:
    sums = JobTimeSums()
    put(sums, steady("a/1", [0, 1, 2]))
    put(sums, [("a/1", 120.0, 120.0, 110.0), ("a/1", 130.0, 130.0, 115.0)])
    assert found(sums) == [20.0 + 10.0, 10.0 + 5.0]


def test_an_agent_that_was_away_held_its_gpus() -> None:
    sums = JobTimeSums()
    put(sums, steady("a/1", [0, 1, 2]))
    put(sums, [("a/1", 120.0, 120.0, 15.0)])
    assert found(sums) == [120.0, 15.0]


def test_agents_of_other_intervals_have_no_gaps() -> None:
    sums = JobTimeSums()
    put(sums, [("a/1", 60.0 * n, 60.0 * n, 60.0 * n) for n in range(4)])
    put(sums, [("b/2", 1.0 * n, 1.0 * n, 1.0 * n) for n in range(4)])
    put(sums, [("b/2", 3.0 + 30.0 * n, 3 + 30.0 * n, 3 + 30.0 * n) for n in range(1, 4)])
    assert found(sums, "1") == [180.0, 180.0]
    assert found(sums, "2") == [63.0, 63.0]


def test_a_restart_goes_on_from_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "time.bin"
    sums = JobTimeSums(path)
    put(sums, [*steady("a/1", [0, 1]), *steady("b/2", [3, 4])])
    sums.save(T0 + 40.0)
    put(sums, steady("a/1", [2, 3]))  # after the save, and lost with the program
    again = JobTimeSums(path)
    put(again, [*steady("a/1", [20]), *steady("b/2", [5])])
    assert found(again, "1") == [200.0, 100.0]
    assert found(again, "2") == [20.0, 10.0]
    assert again.totals(0.0, NAMES)["2"].start_s == T0 + 30.0


def test_a_restart_without_any_job_is_no_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    JobTimeSums(tmp_path / "time.bin").save(T0)
    again = JobTimeSums(tmp_path / "time.bin")
    put(again, steady("a/1", [0, 1]))
    assert found(again, "1") == [10.0, 5.0]
    assert not caplog.records


def test_what_was_silent_for_long_is_forgotten_and_its_rows_are_used_again() -> None:
    sums = JobTimeSums()
    for number in range(300):
        at_s = number * FORGET_S / 50
        put(sums, [(f"a/{number}", at_s, 0.0, 0.0), (f"a/{number}", at_s + 10, 10.0, 10.0)])
        sums.save(T0 + at_s)
    assert len(sums.totals(0.0, NAMES)) <= 52
    assert len(sums._table.names) <= 128
    assert found(sums, "299") == [10.0, 10.0]


@pytest.mark.parametrize("damage", [b"", b"\x00" * 40, b"not msgpack at all"])
def test_a_damaged_file_is_reported_and_totals_start_empty(
    damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "time.bin"
    path.write_bytes(damage)
    assert JobTimeSums(path).totals(0.0, NAMES) == {}
    assert f"{path}: cannot be read" in caplog.text


def test_ends_survive_a_restart_until_their_time_is_over_or_they_are_back(tmp_path: Path) -> None:
    path = tmp_path / "ended.sqlite"
    first = EndedEntitySet(path)
    first.add([("gpu", "a/1"), ("gpu", "b/1"), ("job", "9")], T0 + 60.0)
    first.discard([("gpu", "b/1"), ("gpu", "unknown")])
    first.close()
    again = EndedEntitySet(path)
    assert again.ids("gpu") == ["a/1"]
    assert again.due(T0 + 59.0) == []
    assert set(again.due(T0 + 60.0)) == {("gpu", "a/1"), ("job", "9")}
    again.discard(again.due(T0 + 60.0))
    again.close()
    assert not EndedEntitySet(path)


def test_the_state_of_a_fleet_is_in_one_folder(tmp_path: Path) -> None:
    state = FleetState.open(tmp_path)
    put(state.times, steady("a/1", [0, 1]))
    state.times.save(T0)
    state.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert list(itertools.islice(names, 2)) == ["ended.sqlite", "job-time.bin"]
