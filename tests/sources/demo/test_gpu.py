import numpy as np
import pytest

from otel_ofu.sources.demo.gpu import (
    CLOCK_STEP_HZ,
    HW_SLOWDOWN_C,
    MAX_SM_CLOCK_HZ,
    REASONS,
    SLOWDOWN_C,
    Boards,
    advance,
    cold_boards,
)
from otel_ofu.sources.demo.job import FIELD, Array, healthy_demand, step


def settle(demand: Array, seconds: int = 900, boards: Boards | None = None) -> Boards:
    boards = boards or cold_boards(np.ones(demand.shape[1]))
    for _ in range(seconds // 5):
        boards = advance(boards, step(demand, boards.clock_hz), demand, 5.0)
    return boards


def reason(boards: Boards, name: str) -> Array:
    row: Array = boards.reasons[REASONS.index(name)]
    return row


def test_a_busy_board_runs_at_its_power_cap_below_the_maximum_clock() -> None:
    boards = settle(healthy_demand(2))
    assert reason(boards, "sw_power_cap").all()
    assert boards.power_w == pytest.approx([700, 700], rel=0.03)
    assert (boards.power_w <= 702).all()
    assert (boards.clock_hz > 1.3e9).all()
    assert (boards.clock_hz < 1.7e9).all()


def test_a_lower_cap_lowers_the_clock() -> None:
    demand = healthy_demand(1)
    demand[FIELD["power_limit_w"]] = 400
    assert settle(demand).clock_hz[0] < settle(healthy_demand(1)).clock_hz[0] - 2e8


def test_an_idle_board_boosts_draws_little_and_says_that_it_is_idle() -> None:
    demand = healthy_demand(1)
    demand[FIELD["running"]] = 0
    boards = settle(demand)
    assert boards.clock_hz[0] == MAX_SM_CLOCK_HZ
    assert boards.power_w[0] < 0.25 * 700
    assert reason(boards, "gpu_idle")[0] == 1
    assert reason(boards, "sw_power_cap")[0] == 0


def test_a_locked_clock_is_kept_and_named() -> None:
    demand = healthy_demand(2)
    demand[FIELD["clock_lock_hz"], 1] = 9e8
    boards = settle(demand)
    assert boards.clock_hz[1] == 9e8
    assert reason(boards, "applications_clocks_setting").tolist() == [0, 1]


def test_clocks_lie_on_the_grid_of_the_board() -> None:
    boards = settle(healthy_demand(8))
    assert boards.clock_hz % CLOCK_STEP_HZ == pytest.approx(np.zeros(8))


def test_bad_cooling_holds_the_board_at_the_slowdown_temperature_until_it_is_mended() -> None:
    demand = healthy_demand(1)
    demand[FIELD["cooling"]] = 0.3
    hot = settle(demand)
    assert reason(hot, "sw_thermal_slowdown")[0] == 1
    assert reason(hot, "hw_thermal_slowdown")[0] == 0
    assert hot.temperature_c[0] == pytest.approx(SLOWDOWN_C, abs=4)
    mended = settle(healthy_demand(1), boards=hot)
    assert reason(mended, "sw_thermal_slowdown")[0] == 0
    assert mended.clock_hz[0] > hot.clock_hz[0] + 3e8


def test_without_cooling_the_hardware_steps_in() -> None:
    demand = healthy_demand(1)
    demand[FIELD["cooling"]] = 0.05
    boards = settle(demand)
    assert boards.temperature_c[0] > HW_SLOWDOWN_C
    assert reason(boards, "hw_thermal_slowdown")[0] == 1
    assert boards.clock_hz[0] <= MAX_SM_CLOCK_HZ / 2


def test_heat_does_not_depend_on_how_the_time_is_sliced() -> None:
    demand = healthy_demand(1)
    demand[FIELD["running"]] = 0
    start = settle(healthy_demand(1))
    whole = advance(start, step(demand, start.clock_hz), demand, 60.0)
    half = advance(start, step(demand, start.clock_hz), demand, 30.0)
    halves = advance(half, step(demand, half.clock_hz), demand, 30.0)
    assert halves.temperature_c == pytest.approx(whole.temperature_c)
