from functools import cache
from statistics import fmean, median

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Reading
from otel_ofu.model.errors import ConfigError, SourceError
from otel_ofu.sources.demo import DemoSource, Scenario, TroubleSpan, load_library
from otel_ofu.sources.demo.simulation import PEAK_CLOCK_HZ, PEAK_FLOP_PER_S

START = 1_764_400_000.0


def source(scenario: str | Scenario, **options: float) -> DemoSource:
    return DemoSource(scenario, start_s=START, **options)  # type: ignore[arg-type]


class Node:
    """All that a node reads every ten seconds, as far as somebody asked for it."""

    def __init__(self, scenario: str | Scenario) -> None:
        self._source = source(scenario)
        self._ticks: list[list[Reading]] = []

    def at(self, after_s: int) -> list[Reading]:
        while 10 * len(self._ticks) <= after_s:
            self._ticks.append(list(self._source.read(START + 10 * len(self._ticks))))
        return self._ticks[after_s // 10]


@cache
def known(scenario: str) -> Node:
    """A scenario is simulated once for all tests."""
    return Node(scenario)


def readings(scenario: str | Scenario, from_s: int, to_s: int) -> list[list[Reading]]:
    node = known(scenario) if isinstance(scenario, str) else Node(scenario)
    return [node.at(t) for t in range(from_s, to_s, 10)]


def gpu(ticks: list[list[Reading]], index: int, key: str) -> float:
    return fmean(tick[index].values[key] for tick in ticks)


def ofu(ticks: list[list[Reading]], index: int) -> float:
    products = (t[index].values["tensor_active"] * t[index].values["sm_clock"] for t in ticks)
    return fmean(products) / PEAK_CLOCK_HZ


def test_a_healthy_node_looks_like_one() -> None:
    ticks = readings("healthy", 100, 700)
    for index in range(8):
        assert 0.40 < ofu(ticks, index) < 0.50
        assert gpu(ticks, index, "gpu_util") >= 0.98
        assert 1.3e9 < gpu(ticks, index, "sm_clock") < 1.7e9
        assert gpu(ticks, index, "throttled:sw_power_cap") == 1


def test_a_debug_flag_costs_a_factor_of_two_and_a_half_that_utilization_does_not_show() -> None:
    before, after = readings("debug-flag", 20, 180), readings("debug-flag", 300, 900)
    for index in range(8):
        assert 2.2 < ofu(before, index) / ofu(after, index) < 2.8
        assert min(t[index].values["gpu_util"] for t in after) >= 0.97
        assert gpu(after, index, "nvlink_tx") < gpu(before, index, "nvlink_tx") / 2
        assert gpu(after, index, "sm_active") < gpu(before, index, "sm_active") / 2


def test_a_straggler_shows_a_low_clock_and_high_activity_at_the_same_ofu() -> None:
    ticks = readings("straggler", 300, 900)
    peers = [index for index in range(8) if index != 3]
    clock = median(gpu(ticks, index, "sm_clock") for index in peers)
    tensor = median(gpu(ticks, index, "tensor_active") for index in peers)
    assert gpu(ticks, 3, "sm_clock") < 0.6 * clock
    assert gpu(ticks, 3, "tensor_active") > 1.7 * tensor
    assert ofu(ticks, 3) == pytest.approx(median(ofu(ticks, i) for i in peers), rel=0.03)
    assert ofu(ticks, 0) < 0.8 * ofu(readings("healthy", 300, 900), 0)


def test_lost_cooling_slows_the_hot_gpus_and_through_them_the_job() -> None:
    ticks = readings("thermal", 400, 900)
    for index in range(4, 8):
        assert gpu(ticks, index, "throttled:sw_thermal_slowdown") == 1
        assert gpu(ticks, index, "temperature") > gpu(ticks, 0, "temperature") + 10
        assert gpu(ticks, index, "sm_clock") < 0.7 * gpu(ticks, 0, "sm_clock")
    assert gpu(ticks, 0, "throttled:sw_thermal_slowdown") == 0
    assert ofu(ticks, 0) < 0.85 * ofu(readings("healthy", 400, 900), 0)


def test_a_starved_job_leaves_its_gpus_idle_between_steps() -> None:
    ticks = readings("data-loader", 190, 290)
    assert gpu(ticks, 0, "gpu_util") < 0.5
    assert gpu(ticks, 0, "tensor_active") < 0.2
    assert gpu(readings("data-loader", 310, 360), 0, "gpu_util") > 0.95


def test_an_idle_job_does_nothing_and_holds_its_memory() -> None:
    ticks = readings("idle", 300, 600)
    for key in ("gpu_util", "tensor_active", "sm_active", "nvlink_tx"):
        assert gpu(ticks, 0, key) == 0
    assert gpu(ticks, 0, "mem_used") > 5e10
    assert gpu(ticks, 0, "process_count") == 1
    assert gpu(ticks, 0, "throttled:gpu_idle") == 1


def test_a_miscount_shows_in_what_the_job_says_and_in_no_counter() -> None:
    honest, boasting = source("healthy"), source("flops-miscount")
    assert honest.read(START + 600)[0].values == boasting.read(START + 600)[0].values
    (truth,), (claim,) = honest.job_reports(START + 600), boasting.job_reports(START + 600)
    assert claim.mfu == pytest.approx(2.12 * truth.mfu)
    assert claim.flop_per_s == pytest.approx(claim.mfu * PEAK_FLOP_PER_S)
    assert claim.true_mfu == truth.mfu
    assert claim.step_s == truth.step_s


def test_what_an_honest_job_says_agrees_with_its_counters() -> None:
    ticks = [source("healthy").read(START + 600)]
    (report,) = source("healthy").job_reports(START + 600)
    mean = fmean(ofu([list(t)], index) for t in ticks for index in range(8))
    assert report.mfu == pytest.approx(0.97 * mean, rel=0.01)


def test_a_job_without_steps_reports_no_step_time() -> None:
    (report,) = source("idle").job_reports(START + 600)
    assert (report.step_s, report.mfu) == (None, 0)


def test_a_checkpoint_stops_the_work_and_bursts_over_pcie_on_every_gpu() -> None:
    ticks = readings("healthy-phases", 1210, 1240)
    for index in range(8):
        assert gpu(ticks, index, "pcie_tx") > 1e10
        assert gpu(ticks, index, "tensor_active") < 0.01
    assert gpu(readings("healthy-phases", 1260, 1300), 0, "tensor_active") > 0.4


def test_an_evaluation_works_without_gradient_traffic() -> None:
    training = readings("healthy-phases", 2000, 2300)
    evaluating = readings("healthy-phases", 2420, 2570)
    assert gpu(evaluating, 0, "tensor_active") > 0.4
    assert gpu(evaluating, 0, "nvlink_tx") < 0.5 * gpu(training, 0, "nvlink_tx")
    assert gpu(evaluating, 0, "pcie_tx") < 1e8


def test_batches_come_over_pcie_as_fast_as_the_job_steps() -> None:
    fast, slow = readings("straggler", 100, 180), readings("straggler", 300, 500)
    node = source("straggler")
    steps_s = [node.job_reports(START + t)[0].step_s or 0 for t in (170, 490)]
    batches = [gpu(t, 0, "pcie_rx") - 2e7 for t in (fast, slow)]
    assert batches[0] * steps_s[0] == pytest.approx(batches[1] * steps_s[1], rel=0.05)


def test_time_under_a_throttle_is_counted() -> None:
    node = source("thermal")
    before, after = (node.read(START + t)[4].values for t in (500, 600))
    for name, held_s in (("sw_thermal_slowdown", 100), ("hw_thermal_slowdown", 0)):
        key = f"throttle_time:{name}"
        assert after[key] - before[key] == pytest.approx(held_s)


@pytest.mark.parametrize("scenario", ["thermal", "idle", "debug-flag"])
def test_energy_is_the_integral_of_power(scenario: str) -> None:
    node = source(scenario)
    before = node.read(START + 100)
    drawn = [0.0] * 8
    for t in range(110, 500, 10):
        for index, reading in enumerate(node.read(START + t)):
            drawn[index] += reading.values["power"] * reading.window.length_s
    after = node.read(START + 490)
    risen = [a.values["energy"] - b.values["energy"] for a, b in zip(after, before, strict=True)]
    assert risen == pytest.approx(drawn, rel=1e-3)  # the sensor of power has a ripple of 0.1 W


def test_cycle_counters_agree_with_activity_and_clock() -> None:
    node = source("straggler")
    before, after = (node.read(START + t)[3].values for t in (600, 610))
    cycles = after["sm_cycles_elapsed"] - before["sm_cycles_elapsed"]
    tensor = after["mma_cycles_active"] - before["mma_cycles_active"]
    assert cycles / 10 == pytest.approx(after["sm_clock"])
    assert tensor / cycles == pytest.approx(after["tensor_active"])


def test_counters_never_fall() -> None:
    ticks = readings("tour", 10, 3000)
    for key in ("energy", "sm_cycles_elapsed", "mma_cycles_active", "throttle_time:sw_power_cap"):
        for index in range(8):
            series = [t[index].values[key] for t in ticks]
            assert series == sorted(series)


def test_equal_times_give_equal_readings_whatever_was_read_before() -> None:
    steady, jumpy, backwards = source("tour"), source("tour"), source("tour")
    every = [steady.read(START + t) for t in range(10, 1010, 10)]
    backwards.read(START + 2000)
    assert jumpy.read(START + 1000) == every[-1]
    assert backwards.read(START + 1000) == every[-1]
    assert steady.read(START + 500) == every[49]


def test_another_seed_is_another_node() -> None:
    a, b = source("healthy", seed=1), source("healthy", seed=2)
    assert a.read(START + 100)[0].values != b.read(START + 100)[0].values


def test_a_window_ends_on_the_grid_at_or_before_the_time_that_is_asked_for() -> None:
    node = source("healthy")
    assert node.read(START + 9.9) == []
    assert node.job_reports(START + 9.9) == []
    for asked in (30.0, 34.0, 39.9):
        window = node.read(START + asked)[0].window
        assert (window.start_s, window.end_s) == (START + 20, START + 30)


def test_noise_moves_ofu_by_about_as_much_as_it_says() -> None:
    def spread(noise: float) -> float:
        ticks = readings(Scenario(spans=[], noise=noise), 10, 1000)
        series = [ofu([t], 0) for t in ticks]
        mean = fmean(series)
        return float(fmean((x - mean) ** 2 for x in series) ** 0.5 / mean)

    assert spread(0.0) < 1e-3
    assert 0.005 < spread(0.02) < 0.03
    assert spread(0.04) > 1.5 * spread(0.02)


@pytest.mark.parametrize("name", load_library().scenarios)
def test_every_value_of_every_scenario_is_possible(name: str) -> None:
    registry, node = load_registry(), source(name, interval_s=60)
    for t in range(60, 12600 if name == "tour" else 3000, 180):
        for reading in node.read(START + t):
            gaps = [registry.check(key, value) for key, value in reading.values.items()]
            assert set(gaps) == {None}


def test_values_stay_possible_at_noise_of_forty_percent() -> None:
    registry = load_registry()
    for tick in readings(Scenario(spans=[], noise=0.4), 10, 600):
        for reading in tick:
            assert {registry.check(k, v) for k, v in reading.values.items()} == {None}


def test_identity_is_stable_and_unique_on_many_nodes() -> None:
    devices = source("healthy", gpus=24).devices
    assert len({d.uuid for d in devices}) == 24
    assert devices[9].host == "demo-node-01"
    assert devices[9].index == 1
    assert source("healthy").devices[7].host == "demo-node"
    assert source("healthy").devices[0].model == "NVIDIA H100 80GB HBM3"


def test_owner_names_are_attributes_of_the_registry() -> None:
    (reading, *_) = source("healthy").read(START + 10)
    assert reading.owners[0].job_id == "4242"
    assert set(reading.owners[0].attributes) <= set(load_registry().attributes)


def test_a_lone_idle_gpu_does_not_slow_the_others() -> None:
    unused = Scenario(spans=[TroubleSpan(trouble="idle", start_s=0, gpus=[7])])
    ticks = readings(unused, 100, 400)
    assert gpu(ticks, 7, "gpu_util") == 0
    assert ofu(ticks, 0) == pytest.approx(ofu(readings("healthy", 100, 400), 0), rel=0.03)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"seed": -1}, "seed -1"), ({"interval_s": 0}, "interval_s 0"), ({"gpus": 0}, "0 GPUs")],
)
def test_impossible_settings_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        source("healthy", **options)


def test_a_start_years_ago_is_refused_rather_than_caught_up_for_an_hour() -> None:
    with pytest.raises(SourceError, match="intervals behind, at most 100000"):
        DemoSource("healthy").read(START)
