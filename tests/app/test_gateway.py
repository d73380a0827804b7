"""Totals of a job at a gateway while data comes late, twice, to another gateway, or to none.

Three agents of one job with two GPUs each, OFU 0.6, 0.4 and 0.1: the job has 0.3667.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from otel_ofu.app.job_reports import FleetCollector, JobReports
from otel_ofu.catalog.registry import load_registry
from otel_ofu.config import Config
from otel_ofu.derive.job_figures import TOTALS
from otel_ofu.model import Observation
from otel_ofu.model.clock import VirtualClock
from otel_ofu.outbox.batch import Body
from otel_ofu.receive import Buffer
from otel_ofu.receive.decode import Decoder
from otel_ofu.store import FleetState, Store
from tests.app.agents import GPUS, JOB_OFU, OFU, STEP_S, Agent

T0 = 1_800_000_000.0


class Gateway:
    """All of a gateway between the bytes of a request and what is exported."""

    def __init__(self, clock: VirtualClock, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.exported: list[Observation] = []
        self._clock = clock
        self.store = Store(load_registry(), step_s=STEP_S, state_dir=folder, clock=clock)
        self._fleet = FleetState.open(folder)
        self._decoder = Decoder(load_registry())
        self._buffer = Buffer(self.store, self._fleet)
        reports = JobReports(None, None, clock)
        self._collector = FleetCollector(Config(), self.store, reports, self._fleet)

    def take(self, body: Body) -> None:
        now_s = self._clock.now_s()
        intake = self._decoder.decode(body.raw(), now_s)
        assert not intake.rejected.points
        self._buffer.add(intake, now_s)

    def round(self) -> None:
        self._buffer.flush(self._clock.now_s())
        collected = self._collector.collect((), self._clock.now_s())
        self.store.write(collected.stored)
        self.exported += collected.exported

    def after_a_kill(self) -> Gateway:
        """Another one that finds what the first had written until now, and no more."""
        copy = self.folder.with_name(f"{self.folder.name}-again")
        shutil.copytree(self.folder, copy)
        return Gateway(self._clock, copy)

    def newest(self, key: str) -> float:
        return next(o.values[key] for o in reversed(self.exported) if key in o.values)

    def totals(self) -> dict[str, float]:
        return {key: self.newest(key) for key in TOTALS.values()}


class World:
    """Agents, and the gateway that each one sends to."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock(T0)
        self.folder = folder
        self.agents = {name: Agent(name, self.clock) for name in OFU}
        self.gateway = Gateway(self.clock, folder / "gateway")
        self.route: Callable[[str], Sequence[Gateway]] = lambda _agent: [self.gateway]

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.clock.advance(STEP_S)
            for agent in self.agents.values():
                agent.round()
            self.deliver()

    def deliver(self) -> None:
        to = {name: self.route(name) for name in self.agents}
        for name, agent in self.agents.items():
            for body in agent.outbox if to[name] else ():
                for gateway in to[name]:
                    gateway.take(body)
            agent.outbox = [] if to[name] else agent.outbox
        for gateway in dict.fromkeys(gateway for each in to.values() for gateway in each):
            gateway.round()


def gained(after: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    return {key: after[key] - before[key] for key in after}


def ofu_of(totals: dict[str, float]) -> float:
    return totals["job_effective_time"] / totals["job_observed_time"]


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.live(20)
    return world


def test_a_job_without_trouble_has_all_of_its_time_from_the_second_step_on(world: World) -> None:
    assert world.gateway.totals() == {
        "job_gpu_time": 6 * 200.0,
        "job_observed_time": 6 * 200.0,
        "job_effective_time": pytest.approx(6 * 200.0 * JOB_OFU),
        "job_idle_time": 0.0,
        "job_lost_time": pytest.approx(2 * 200.0 * 0.75),
    }
    assert world.gateway.newest("job_ofu") == pytest.approx(JOB_OFU, abs=1e-6)
    assert world.gateway.newest("job_late_gpus") == 0.0
    assert not any("gpu_late_time" in seen.values for seen in world.gateway.exported)


def test_data_of_a_node_that_was_cut_off_is_in_the_totals_once_it_is_there(world: World) -> None:
    before = world.gateway.totals()
    world.route = lambda name: [] if name == "c" else [world.gateway]
    world.live(8)
    assert world.gateway.newest("job_late_gpus") == 2.0
    assert world.gateway.newest("job_gpu_count") == 6.0
    assert world.gateway.newest("job_coverage") == pytest.approx(4 / 6)
    assert gained(world.gateway.totals(), before)["job_gpu_time"] == 4 * 80.0
    world.route = lambda _name: [world.gateway]
    world.live(2)
    total = gained(world.gateway.totals(), before)
    assert ofu_of(total) == pytest.approx(JOB_OFU)
    assert total["job_gpu_time"] == total["job_observed_time"] == 6 * 100.0
    assert world.gateway.newest("job_late_gpus") == 0.0
    assert world.gateway.newest("job_ofu") == pytest.approx(JOB_OFU, abs=1e-6)


def test_late_time_is_counted_by_node_and_begins_with_0(world: World) -> None:
    world.route = lambda name: [] if name == "c" else [world.gateway]
    world.live(8)
    late = [seen for seen in world.gateway.exported if "gpu_late_time" in seen.values]
    assert {seen.entity.id for seen in late} == {"c"}
    # The step that ended 10 s ago is waited for until it is 20 s ago.
    assert [s.values["gpu_late_time"] for s in late] == [0.0, 40.0, 60.0, 80.0, 100.0, 120.0]
    assert len({seen.starts_s["gpu_late_time"] for seen in late}) == 1


def test_figures_wait_for_the_allowed_lateness_alone(world: World) -> None:
    world.route = lambda name: [] if name == "c" else [world.gateway]
    world.live(1)
    published = len([s for s in world.gateway.exported if "job_ofu" in s.values])
    world.route = lambda _name: [world.gateway]
    world.live(1)
    figures = [seen for seen in world.gateway.exported if "job_ofu" in seen.values][published:]
    assert {seen.values["job_late_gpus"] for seen in figures} == {0.0}
    assert figures[-1].window.end_s == world.clock.now_s() - STEP_S


def test_the_time_in_which_a_gateway_was_gone_is_in_the_totals(world: World) -> None:
    before = world.gateway.totals()
    world.live(1)
    killed = world.gateway
    world.route = lambda _name: []
    world.live(7)
    world.gateway = killed.after_a_kill()
    world.route = lambda _name: [world.gateway]
    world.live(2)
    total = gained(world.gateway.totals(), before)
    assert total["job_gpu_time"] == total["job_observed_time"] == 6 * 100.0
    assert ofu_of(total) == pytest.approx(JOB_OFU)


def test_requests_that_were_lost_with_a_gateway_are_in_the_totals(world: World) -> None:
    before = world.gateway.totals()
    world.route = lambda _name: []
    world.live(7)
    for agent in world.agents.values():
        agent.outbox.clear()
    world.gateway = world.gateway.after_a_kill()
    world.route = lambda _name: [world.gateway]
    world.live(3)
    assert gained(world.gateway.totals(), before)["job_observed_time"] == 6 * 100.0


def test_no_total_falls_when_a_gateway_is_killed(world: World) -> None:
    last = world.gateway.totals()
    world.gateway = world.gateway.after_a_kill()
    world.route = lambda name: [] if name == "c" else [world.gateway]
    world.live(1)
    assert all(value >= 0 for value in gained(world.gateway.totals(), last).values())
    assert gained(world.gateway.totals(), last)["job_gpu_time"] == 4 * 10.0


def test_gpus_of_an_agent_that_ended_leave_the_job_though_the_gateway_was_killed(
    world: World,
) -> None:
    agent = world.agents["c"]
    agent.end()
    world.deliver()
    del world.agents["c"]
    killed = world.gateway
    world.route = lambda _name: []
    world.live(6)
    world.gateway = killed.after_a_kill()
    world.route = lambda _name: [world.gateway]
    world.live(3)
    assert world.gateway.newest("job_gpu_count") == 4.0
    assert world.gateway.newest("job_coverage") == 1.0
    assert world.gateway.newest("job_ofu") == pytest.approx(0.5, abs=1e-6)


def test_a_request_that_is_delivered_twice_counts_once(world: World) -> None:
    before = world.gateway.totals()
    world.route = lambda _name: [world.gateway, world.gateway]
    world.live(10)
    total = gained(world.gateway.totals(), before)
    assert total["job_gpu_time"] == 6 * 100.0
    assert ofu_of(total) == pytest.approx(JOB_OFU)


def test_sums_over_two_gateways_are_right_though_agents_move(world: World, tmp_path: Path) -> None:
    other = Gateway(world.clock, tmp_path / "other")
    before = world.gateway.totals()
    moves = (("c", other), ("b", other), ("c", world.gateway), ("a", other))
    home = dict.fromkeys(OFU, world.gateway)
    world.route = lambda name: [home[name]]
    for name, gateway in moves:
        home[name] = gateway
        world.live(10)
    total = gained(world.gateway.totals(), before)
    both = {key: total[key] + other.totals()[key] for key in total}
    # Between the last request here and the first there lies a step that no gateway knows.
    lost = [OFU[name] * STEP_S for name, _ in moves for _ in range(GPUS)]
    assert both["job_gpu_time"] == both["job_observed_time"] == 6 * 400.0 - len(lost) * STEP_S
    assert both["job_effective_time"] == pytest.approx(6 * 400.0 * JOB_OFU - sum(lost))


def test_a_counter_that_begins_anew_goes_on_in_the_totals(world: World) -> None:
    before = world.gateway.totals()
    world.agents["c"] = Agent("c", world.clock)
    world.live(10)
    total = gained(world.gateway.totals(), before)
    assert total["job_gpu_time"] == 6 * 100.0
    assert ofu_of(total) == pytest.approx(JOB_OFU)


def test_an_agent_that_was_away_holds_its_gpus_and_did_not_observe_them(
    world: World, tmp_path: Path
) -> None:
    first = Agent("a", world.clock, tmp_path)
    world.agents["a"] = first
    world.live(5)
    before = world.gateway.totals()
    first.end()
    world.deliver()
    del world.agents["a"]
    world.live(9)
    world.agents["a"] = Agent("a", world.clock, tmp_path)
    world.live(1)
    total = gained(world.gateway.totals(), before)
    assert total["job_gpu_time"] == 6 * 100.0
    assert total["job_observed_time"] == 6 * 100.0 - 2 * 90.0


def test_a_job_that_ended_on_a_node_is_in_no_figure_and_its_time_in_the_totals(
    world: World,
) -> None:
    before = world.gateway.totals()
    world.agents["c"].job = ""
    world.live(10)
    assert world.gateway.newest("job_gpu_count") == 4.0
    assert world.gateway.newest("job_late_gpus") == 0.0
    assert gained(world.gateway.totals(), before)["job_gpu_time"] == 4 * 100.0


def test_the_totals_of_a_job_stay_for_five_minutes_after_its_end(world: World) -> None:
    for agent in world.agents.values():
        agent.job = ""
    last = world.gateway.totals()
    world.live(70)
    ends = [s.window.end_s for s in world.gateway.exported if "job_gpu_time" in s.values]
    ended_s = T0 + 200.0
    assert ended_s + 300.0 <= max(ends) <= ended_s + 660.0
    assert world.gateway.totals() == last
