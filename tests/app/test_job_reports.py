"""What jobs report beside their GPUs' OFU: until the next report is due, and no longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_ofu.app.job_reports import FleetCollector, JobCollector, JobReports
from otel_ofu.catalog.registry import load_registry
from otel_ofu.config import Config
from otel_ofu.mfu.logs import build_follower
from otel_ofu.mfu.settings import LogSettings
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.store import FleetState, Store

T0 = 1_700_000_000.0
TICK_S = 10.0
GPU = Entity("gpu", "GPU-0/7", {"hw.id": "GPU-0", "ofu.job.id": "7"})


class Node:
    """A job on one GPU that writes a log."""

    def __init__(self, folder: Path, name: str = "7") -> None:
        self.clock = VirtualClock(T0)
        self.log = folder / "7.log"
        self.log.write_text("", "utf-8")
        logs = build_follower([LogSettings(files=[str(folder / f"{name}.log")])], self.clock)
        self.reports = JobReports(logs, None, self.clock)
        self.reports.poll(T0)
        self.collector = JobCollector(self.reports)

    def tick(self, *lines: str) -> dict[str, Observation]:
        """By `GPUs` and `log` what became of a round, after the log got `lines`."""
        self.write(*lines)
        now_s = self.clock.now_s()
        values = {"ofu": 0.5, "flop_limit": 1e15}
        round_ = [Observation(GPU, Window(now_s - TICK_S, now_s), values)]
        stored = self.collector.collect(round_, now_s).stored
        return {"GPUs" if "job_ofu" in o.values else "log": o for o in stored}

    def write(self, *lines: str) -> None:
        self.clock.advance(TICK_S)
        with self.log.open("a", encoding="utf-8") as log:
            log.writelines(line + "\n" for line in lines)
        self.reports.poll(self.clock.now_s())


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.reports.close()


def iteration(number: int, mfu: float = 41.0) -> str:
    return f"iter {number}: loss 2.0000, time 1200.00ms, mfu {mfu:.2f}%"


def test_a_job_that_reports_every_ten_minutes_has_an_mfu_all_the_time(node: Node) -> None:
    known = [
        "mfu" in node.tick(*([iteration(tick)] if tick % 60 == 0 else []))["GPUs"].values
        for tick in range(240)
    ]
    assert all(known[60:])


def test_what_it_reported_stands_as_long_and_no_longer(node: Node) -> None:
    rounds = [node.tick(*([iteration(tick)] if tick in (0, 6) else [])) for tick in range(30)]
    standing = [n for n, o in enumerate(rounds) if "mfu_reported" in o["GPUs"].values]
    assert standing == list(range(6 + 12 + 1))
    assert rounds[7]["GPUs"].values["step_time"] == 1.2


def test_a_report_is_of_the_time_since_the_one_before(node: Node) -> None:
    rounds = [node.tick(*([iteration(tick)] if tick in (0, 60) else [])) for tick in range(61)]
    now_s = node.clock.now_s()
    assert rounds[0]["log"].window.length_s == 0
    assert rounds[60]["log"].window == Window(now_s - 600, now_s)


def test_rules_of_a_gateway_see_a_report_until_the_next_is_due(tmp_path: Path) -> None:
    node = Node(tmp_path, "{job}")
    store = Store(load_registry(), step_s=TICK_S, clock=node.clock)
    gateway = FleetCollector(Config(), store, node.reports, FleetState.open(None))
    for tick in range(190):
        node.write(*([iteration(tick)] if tick in (0, 60, 120) else []))
        now_s = node.clock.now_s()
        store.write([Observation(GPU, Window(now_s - TICK_S, now_s), {"ofu": 0.5})])
        store.write(gateway.collect((), now_s).stored)
    end_s = node.clock.now_s() - 2 * TICK_S
    with store.reading():
        rows = store.block("job", "mfu_reported", end_s - 600, end_s).array()
    assert rows[:, 0].tolist() == pytest.approx([0.41] * 60)


def test_the_mfu_of_a_role_is_not_held_against_the_jobs_ofu(node: Node) -> None:
    line = "step:6 - perf/mfu/actor_infer:0.17 - perf/mfu/actor:0.37 - perf/throughput:1024.5"
    job = node.tick(line)["GPUs"]
    assert job.values["mfu_role:actor"] == 0.37
    assert job.values["mfu_role:actor_infer"] == 0.17
    assert not {"mfu", "mfu_reported"} & job.values.keys()


def test_a_log_that_makes_up_roles_makes_up_no_series(node: Node) -> None:
    rounds = [node.tick(f"perf/mfu/role_{number}:0.1") for number in range(40)]
    roles = {key for seen in rounds for o in seen.values() for key in o.values if ":" in key}
    assert 0 < len(roles) <= 16
