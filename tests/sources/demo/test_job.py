import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.sources.demo.job import FIELD, PHASES, healthy_demand, step, vary

CLOCK = 1.5e9


def test_the_time_of_every_rank_is_spent_exactly_once() -> None:
    taken = step(healthy_demand(4), np.array([1.2e9, 1.5e9, 1.6e9, 1.98e9]))
    assert taken.shares.sum(axis=0) == pytest.approx(np.ones(4))


def test_a_step_takes_as_long_as_the_slowest_rank() -> None:
    alone = step(healthy_demand(1), np.array([9e8]))
    together = step(healthy_demand(3), np.array([1.98e9, 9e8, 1.98e9]))
    assert together.length_s == pytest.approx(alone.length_s)


def test_only_the_slowest_rank_does_not_wait() -> None:
    waits = step(healthy_demand(3), np.array([1.98e9, 9e8, 1.98e9])).shares[PHASES.index("wait")]
    assert waits[1] == pytest.approx(0, abs=1e-12)
    assert min(waits[0], waits[2]) > 0.2


def test_ranks_that_do_not_run_neither_work_nor_hold_up_the_others() -> None:
    demand = healthy_demand(2)
    demand[FIELD["running"], 0] = 0
    demand[FIELD["input_s"], 0] = 100
    taken = step(demand, np.full(2, CLOCK))
    assert taken.shares[:, 0].sum() == 0
    assert taken.length_s == pytest.approx(step(healthy_demand(1), np.array([CLOCK])).length_s)


def test_without_any_rank_there_is_no_step() -> None:
    demand = healthy_demand(2)
    demand[FIELD["running"]] = 0
    taken = step(demand, np.full(2, CLOCK))
    assert taken.length_s == float("inf")
    assert not taken.shares.any()


def test_what_no_longer_hides_behind_computation_lengthens_the_step() -> None:
    demand = healthy_demand(1)
    hidden_s = step(demand, np.array([CLOCK])).length_s
    demand[FIELD["overlap"]] = 0
    assert step(demand, np.array([CLOCK])).length_s == pytest.approx(hidden_s + 0.8)


@given(st.lists(st.floats(3.45e8, 1.98e9), min_size=1, max_size=16))
def test_tensor_work_per_second_is_equal_on_all_ranks_whatever_their_clocks(
    clocks: list[float],
) -> None:
    clock_hz = np.array(clocks)
    shares = step(healthy_demand(clock_hz.size), clock_hz).shares
    work = shares[PHASES.index("gemm")] * clock_hz
    assert work == pytest.approx(np.full(clock_hz.size, work[0]))


def test_chance_leaves_the_demand_itself_alone_and_vanishes_without_noise() -> None:
    demand = healthy_demand(2)
    draws = np.array([1.0, 2.0, 3.0, -1.0])
    assert (vary(demand, draws, 0.0) == demand).all()
    assert (vary(demand, draws, 0.5) != demand).any()
    assert (demand == healthy_demand(2)).all()
