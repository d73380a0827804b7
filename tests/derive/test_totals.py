from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.model import GapReason, Observation, Reading
from tests.derive.readings import BUSY, reading

LIMIT = 132 * 4096 * 1.83e9


def _run(*readings: Reading) -> list[Observation]:
    deriver = Deriver(DeriverSettings())
    return [deriver.derive(read) for read in readings]


def test_totals_add_up_over_windows_and_say_since_when() -> None:
    first, second = _run(reading(BUSY, start_s=100), reading(BUSY, start_s=110))
    assert first.starts_s == second.starts_s == {"flop_count": 100, "flop_capacity": 100}
    assert first.values["flop_capacity"] == pytest.approx(10 * LIMIT)
    assert second.values["flop_capacity"] == pytest.approx(20 * LIMIT)
    assert second.values["flop_count"] == pytest.approx(2 * first.values["flop_count"])


windows = st.lists(
    st.tuples(st.floats(0, 1), st.floats(1e8, 2e9), st.floats(0.1, 100)), min_size=1, max_size=20
)


@given(windows)
def test_count_over_capacity_is_the_time_weighted_ofu(
    seen: list[tuple[float, float, float]],
) -> None:
    deriver, start_s, weighted, total_s = Deriver(DeriverSettings()), 0.0, 0.0, 0.0
    values: dict[str, float] = {}
    for tensor, clock_hz, length_s in seen:
        measured = {"tensor_active": tensor, "sm_clock": clock_hz}
        read = reading(measured, start_s=start_s, length_s=length_s)
        values = dict(deriver.derive(read).values)
        weighted += values["ofu"] * read.window.length_s
        total_s += read.window.length_s
        start_s = read.window.end_s
    assert values["flop_count"] / values["flop_capacity"] == pytest.approx(weighted / total_s)


def test_a_window_without_ofu_is_missing_and_counts_for_neither() -> None:
    _, gap, after = _run(
        reading(BUSY), reading({"sm_clock": 1e9}, start_s=10), reading(BUSY, start_s=20)
    )
    assert {"flop_count", "flop_capacity"} <= set(gap.gaps)
    assert gap.starts_s == {}
    assert after.values["flop_capacity"] == pytest.approx(20 * LIMIT)


def test_a_repeated_or_overlapping_window_is_counted_once() -> None:
    _, again, overlapping = _run(reading(BUSY), reading(BUSY), reading(BUSY, start_s=5))
    assert again.values["flop_capacity"] == pytest.approx(10 * LIMIT)
    assert overlapping.values["flop_capacity"] == pytest.approx(15 * LIMIT)


def test_a_wall_clock_that_was_set_back_does_not_stop_the_count() -> None:
    before, after = _run(reading(BUSY, start_s=5000), reading(BUSY, start_s=1000))
    assert after.values["flop_capacity"] == pytest.approx(2 * before.values["flop_capacity"])
    assert after.starts_s["flop_count"] == 1000


def test_an_instant_has_no_integral() -> None:
    (instant,) = _run(reading(BUSY, length_s=0))
    assert instant.gaps["flop_count"].reason is GapReason.NOT_READY
    assert "ofu" in instant.values


def test_another_job_or_precision_begins_its_own_totals() -> None:
    deriver = Deriver(DeriverSettings())
    starts = [
        deriver.derive(reading(BUSY, start_s=10.0 * i), owner=owner).starts_s["flop_count"]
        for i, owner in enumerate(
            [
                {},
                {"ofu.job.id": "7"},
                {"ofu.job.id": "7"},
                {"ofu.job.id": "7", "ofu.precision": "fp8"},
                {"ofu.job.id": "8"},
                {},
            ]
        )
    ]
    assert starts == [0, 10, 10, 30, 40, 0]
