"""Figures of jobs from the counters of agents in a real Prometheus, with no gateway."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import yaml

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.otlp import transport_for
from otel_ofu.export.settings import OtlpOptions, resolve
from otel_ofu.model.clock import VirtualClock
from otel_ofu.outbox.outcome import Delivered, Transport
from otel_ofu.rules.promql.recording import export_recordings, recordings
from otel_ofu.rules.promql.ruler import TARGETS
from tests.app.agents import GPUS, JOB_OFU, OFU, STEP_S, Agent
from tests.peers.peer import run_tool
from tests.peers.processes import Prometheus

pytestmark = pytest.mark.peer

START = Callable[..., Prometheus]
POINTS = 0.002
"""OFU of a job: within 0.2 points."""


class Fleet:
    """Agents that send to a Prometheus, until now."""

    def __init__(self, folder: Path, transport: Transport, minutes: float) -> None:
        end_s = time.time() // STEP_S * STEP_S
        self.clock = VirtualClock(end_s - 60.0 * minutes)
        self.start_s = self.clock.now_s()
        self._folder, self._transport = folder, transport
        self.agents = {name: self.agent(name) for name in OFU}

    def agent(self, name: str) -> Agent:
        """One that goes on from what it had kept."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return Agent(name, self.clock, folder)

    def live(self, steps: int, *, times: int = 1, cut: str = "") -> None:
        """`times`: how often each request is delivered; `cut`: who cannot send."""
        for _ in range(steps):
            self.clock.advance(STEP_S)
            for name, agent in self.agents.items():
                agent.round()
                if name != cut:
                    self.deliver(agent, times)

    def deliver(self, agent: Agent, times: int = 1) -> None:
        for body in agent.outbox:
            for _ in range(times):
                assert self._transport.send(body, 10.0) == Delivered()
        agent.outbox = []


@contextmanager
def fleet(prometheus: START, folder: Path, minutes: float) -> Iterator[tuple[Prometheus, Fleet]]:
    peer = prometheus(flags=["--web.enable-otlp-receiver"])
    settings = resolve(OtlpOptions(endpoint=f"{peer.url}/api/v1/otlp"), "metrics")
    with closing(transport_for(settings)) as transport:
        yield peer, Fleet(folder, transport, minutes)


def increases(peer: Prometheus, at_s: float, length_s: float) -> Mapping[str, float]:
    """What the counters of the job gained, by the query that the rules have, over all of it."""
    found = {}
    for counter in ("allocated", "observed", "effective"):
        name = f"ofu_gpu_time_{counter}_seconds_total"
        query = f"sum by (ofu_job_id) (increase({name}[{length_s:.0f}s]))"
        (series,) = peer.query(query, at_s)
        assert series["metric"] == {"ofu_job_id": "1"}
        found[counter] = float(series["value"][1])
    return found


def test_a_job_has_its_ofu_and_time_over_a_cut_a_double_delivery_and_a_restart(
    prometheus: START, tmp_path: Path
) -> None:
    with fleet(prometheus, tmp_path, 20) as (peer, world):
        world.live(12)
        world.live(7, cut="c")  # c is cut off, and then delivers all that it kept
        world.deliver(world.agents["c"])
        world.live(6, times=2)  # the answers are lost, and every request comes twice
        world.agents["b"].end()
        world.deliver(world.agents["b"])
        restarted = world.agents.pop("b")
        world.live(6)
        world.agents["b"] = world.agent(restarted.name)
        world.live(12)
        held_s = 43 * STEP_S
        for agent in world.agents.values():
            agent.job = ""
        world.live(40)
        found = increases(peer, world.clock.now_s(), 900.0)
    effective = sum(GPUS * OFU[name] * (held_s - 60.0 * (name == "b")) for name in OFU)
    observed = len(OFU) * GPUS * held_s - GPUS * 60.0
    assert found["effective"] / found["observed"] == pytest.approx(effective / observed, abs=POINTS)
    tolerance_s = len(OFU) * GPUS * STEP_S + GPUS * STEP_S  # an interval for each GPU and restart
    assert found["allocated"] == pytest.approx(len(OFU) * GPUS * held_s, abs=tolerance_s)
    assert found["observed"] == pytest.approx(observed, abs=tolerance_s)


def test_the_rules_give_the_figures_of_a_job(prometheus: START, tmp_path: Path) -> None:
    with fleet(prometheus, tmp_path, 10) as (peer, world):
        world.live(40)
        recorded: dict[str, float] = {}
        for name, query in recordings(load_registry()):
            for known, value in recorded.items():
                query = query.replace(known, f"vector({value!r})")  # noqa: PLW2901 - by what is recorded
            (series,) = peer.query(query, world.clock.now_s())
            recorded[name] = float(series["value"][1])
    figures = {name.removeprefix("ofu_job:"): value for name, value in recorded.items()}
    seconds = len(OFU) * GPUS * 300.0
    assert figures == {
        "gpu_time_allocated_seconds:increase5m": pytest.approx(seconds),
        "gpu_time_observed_seconds:increase5m": pytest.approx(seconds),
        "gpu_time_effective_seconds:increase5m": pytest.approx(seconds * JOB_OFU),
        "gpu_time_idle_seconds:increase5m": 0.0,
        "gpu_time_below_target_seconds:increase5m": pytest.approx(GPUS * 300.0 * 0.75),
        "ofu:ratio5m": pytest.approx(JOB_OFU),
        "coverage:ratio5m": pytest.approx(1.0),
        "gpus:avg5m": pytest.approx(6.0),
        "gpu_ofu:min5m": pytest.approx(0.1),
        "gpu_ofu:max5m": pytest.approx(0.6),
        "gpu_ofu:median5m": pytest.approx(0.4),
    }


def test_a_job_that_ended_is_in_the_rules_with_all_of_its_time(
    prometheus: START, tmp_path: Path
) -> None:
    with fleet(prometheus, tmp_path, 10) as (peer, world):
        world.live(10)  # less than the window, from its birth to its end
        for agent in world.agents.values():
            agent.job = ""
        world.live(12)
        found = increases(peer, world.clock.now_s(), 300.0)
    assert found["allocated"] == pytest.approx(6 * 100.0, abs=6 * STEP_S)
    assert found["effective"] / found["observed"] == pytest.approx(JOB_OFU, abs=POINTS)


@pytest.mark.parametrize("to", TARGETS)
def test_the_rules_pass_promtool(to: str, promtool: Path, tmp_path: Path) -> None:

    tree = yaml.safe_load(export_recordings(to, load_registry()))  # type: ignore[arg-type]
    groups = tree["spec"]["groups"] if "spec" in tree else tree["groups"]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": groups}))
    assert "SUCCESS" in run_tool("promtool", "check", "rules", str(path))
