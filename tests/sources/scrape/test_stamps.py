"""Samples with times of their own: used once, over their own time, with what is as old as they."""

import itertools
from collections.abc import Mapping

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.vendors import load_vendors
from otel_ofu.derive.deriver import Deriver
from otel_ofu.derive.gpu_time import GpuTimeMeter
from otel_ofu.derive.settings import DeriverSettings
from otel_ofu.model import GapReason, Reading, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.sources.scrape.page import PageReader, ScrapeContext
from otel_ofu.sources.scrape.stamps import AHEAD_S, FRESH_S, StampedWindows
from tests.sources.scrape.golden import NOW_S

INTERVAL_S = 10.0
SCRAPE_S = 30.0


def line(name: str, value: float, stamp_s: float | None) -> str:
    stamp = "" if stamp_s is None else f" {round(stamp_s * 1000)}"
    return f'DCGM_FI_{name}{{gpu="0",UUID="GPU-0"}} {value}{stamp}\n'


def page(tensor_s: float | None, clock_s: float | None, **more: tuple[float, float | None]) -> str:
    return (
        line("PROF_PIPE_TENSOR_ACTIVE", 0.4, tensor_s)
        + line("DEV_SM_CLOCK", 1410, clock_s)
        + "".join(line(name, value, stamp_s) for name, (value, stamp_s) in more.items())
    )


def reader() -> PageReader:
    context = ScrapeContext(load_vendors(), load_registry(), VirtualClock(NOW_S), INTERVAL_S)
    return PageReader(context, "node")


def read_once(text: str, now_s: float = NOW_S) -> Reading:
    (reading,) = reader().read(text, now_s).readings
    return reading


def test_the_window_of_a_reading_ends_with_its_samples() -> None:
    of_page = reader()
    windows = []
    for i in range(3):
        stamp_s = NOW_S + SCRAPE_S * i
        (reading,) = of_page.read(page(stamp_s, stamp_s), stamp_s + 12).readings
        windows.append(reading.window)
    assert windows[1:] == [
        Window(NOW_S + SCRAPE_S * i, NOW_S + SCRAPE_S * (i + 1)) for i in range(2)
    ]
    assert windows[0].end_s == NOW_S


def test_until_a_sample_is_followed_by_another_the_reading_is_the_same() -> None:
    of_page = reader()
    first, *others = (
        of_page.read(page(NOW_S, NOW_S), NOW_S + INTERVAL_S * i).readings for i in range(4)
    )
    assert first[0].values["tensor_active"] == 0.4
    assert others == [first] * 3


@pytest.mark.parametrize("lag_s", [None, 0.0, 12.0])
def test_no_time_is_lost_between_two_refreshes_and_none_counts_twice(lag_s: float | None) -> None:
    of_page, windows = reader(), list[Window]()
    for i in range(30):
        now_s = NOW_S + INTERVAL_S * i
        refreshed_s = NOW_S + SCRAPE_S * (i // 3)
        stamp_s = None if lag_s is None else refreshed_s - lag_s
        text = page(stamp_s, stamp_s, DEV_TOTAL_ENERGY_CONSUMPTION=(refreshed_s, stamp_s))
        (reading,) = of_page.read(text, now_s).readings
        if i % 3 == 0:
            windows.append(reading.window)
        assert reading.window == windows[-1]
    assert all(one.end_s == other.start_s for one, other in itertools.pairwise(windows))
    assert windows[-1].end_s == NOW_S + 270 - (lag_s or 0.0)


def test_a_job_on_a_page_that_is_refreshed_every_30_s_is_observed_all_the_time() -> None:
    of_page, deriver, meter = reader(), Deriver(DeriverSettings()), GpuTimeMeter()
    seconds: Mapping[str, float] = {}
    labels = 'gpu="0",UUID="GPU-0",modelName="NVIDIA H200",hpc_job="7"'
    for i in range(31):
        text = (
            f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{labels}}} 0.5\n"
            f"DCGM_FI_DEV_SM_CLOCK{{{labels}}} 1830\n"
            f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {1000 + i // 3}\n"
        )
        readings = of_page.read(text, NOW_S + INTERVAL_S * i).readings
        counted = meter.count([deriver.derive(reading) for reading in readings], NOW_S + 10 * i)
        seconds = counted.live[0].values
    assert seconds["gpu_time_allocated"] == seconds["gpu_time_observed"] == 310
    assert seconds["gpu_time_effective"] == pytest.approx(155)


def test_a_page_that_stands_still_is_time_without_values() -> None:
    of_page = reader()
    readings = [
        of_page.read(page(NOW_S, NOW_S), NOW_S + INTERVAL_S * i).readings[0] for i in range(20)
    ]
    assert readings[-1].gaps["tensor_active"].reason is GapReason.STALE
    assert readings[-1].window == Window(NOW_S + 180, NOW_S + 190)


def test_a_counter_has_the_time_between_its_own_samples() -> None:
    def at(tick_s: float, joules: float) -> str:
        return page(tick_s, tick_s, DEV_TOTAL_ENERGY_CONSUMPTION=(joules, tick_s - 5))

    of_page = reader()
    of_page.read(at(NOW_S, 1e6), NOW_S + 3)
    (reading,) = of_page.read(at(NOW_S + SCRAPE_S, 2e6), NOW_S + SCRAPE_S + 3).readings
    assert reading.window == Window(NOW_S, NOW_S + SCRAPE_S)
    assert reading.window_of("energy") == Window(NOW_S - 5, NOW_S + SCRAPE_S - 5)
    assert "tensor_active" not in reading.windows


def test_a_page_with_and_without_stamps_has_the_window_of_the_read() -> None:
    reading = read_once(page(None, NOW_S - 3))
    assert reading.window == Window(NOW_S - INTERVAL_S, NOW_S)
    assert reading.window_of("sm_clock").end_s == NOW_S - 3


@pytest.mark.parametrize(
    ("stamp_s", "reason"),
    [
        (NOW_S - FRESH_S - 1, GapReason.STALE),
        (NOW_S - 7200, GapReason.STALE),
        (NOW_S + AHEAD_S + 1, GapReason.OUT_OF_RANGE),
        (1e300, GapReason.OUT_OF_RANGE),
        (-0.001, GapReason.OUT_OF_RANGE),
        (0.0, GapReason.OUT_OF_RANGE),
    ],
)
def test_a_sample_of_another_time_is_not_one_of_now(stamp_s: float, reason: GapReason) -> None:
    reading = read_once(page(stamp_s, stamp_s))
    assert reading.values == {}
    assert {gap.reason for gap in reading.gaps.values()} == {reason}
    assert reading.owners == ()


@pytest.mark.parametrize("age_s", [FRESH_S, 0.0, -AHEAD_S])
def test_a_recent_sample_is_used(age_s: float) -> None:
    assert read_once(page(NOW_S - age_s, NOW_S - age_s)).values["tensor_active"] == 0.4


@pytest.mark.parametrize(
    ("tensor_s", "clock_s", "old"),
    [(NOW_S, NOW_S - 40, "sm_clock"), (NOW_S - 40, NOW_S, "tensor_active")],
)
def test_what_is_multiplied_belongs_to_one_period(
    tensor_s: float, clock_s: float, old: str
) -> None:
    reading = read_once(page(tensor_s, clock_s))
    assert reading.gaps[old].reason is GapReason.STALE
    assert reading.values.keys() == {"tensor_active", "sm_clock"} - {old}


def test_samples_of_one_period_are_multiplied() -> None:
    assert len(read_once(page(NOW_S, NOW_S - SCRAPE_S)).values) == 2


def test_a_page_that_is_refreshed_every_five_minutes_is_learned_and_used() -> None:
    of_page, used = reader(), []
    for i in range(120):
        now_s = NOW_S + INTERVAL_S * i
        stamp_s = NOW_S + 300 * (i // 30) - 150
        (reading,) = of_page.read(page(stamp_s, stamp_s), now_s).readings
        used.append(reading.window if "tensor_active" in reading.values else None)
    assert len(set(used[60:])) == 2
    assert None not in used[60:]


def test_after_the_clock_was_set_back_stamps_are_used_again() -> None:
    of_page = reader()
    of_page.read(page(NOW_S, NOW_S), NOW_S)
    (reading,) = of_page.read(page(NOW_S - 3600, NOW_S - 3600), NOW_S - 3600).readings
    assert reading.values["tensor_active"] == 0.4


def test_a_device_that_was_away_for_a_moment_does_not_count_its_samples_twice() -> None:
    of_page = reader()
    of_page.read(page(NOW_S, NOW_S), NOW_S)
    of_page.read("\n", NOW_S + 10)
    (reading,) = of_page.read(page(NOW_S, NOW_S), NOW_S + 20).readings
    assert reading.window.end_s == NOW_S


def test_a_device_without_stamps_is_not_remembered() -> None:
    windows = StampedWindows()
    windows.judge("GPU-0", {}, 0.0, 10.0)
    windows.forget(-100.0)
    assert not windows._used
