"""A node dies with eight GPUs and two jobs: one notification, from rules to routes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.diagnose import Incidents, StoreNodes
from otel_ofu.model import Entity, Finding, Observation, Window
from otel_ofu.rules.files import rules_from_text
from otel_ofu.rules.lifecycle.engine import Engine
from otel_ofu.rules.lifecycle.evaluation import StoreLastSeen
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.store import Store
from tests.notify.rig import Rig, rig

RULES = """
groups:
  - name: g
    interval: 30s
    rules:
      - {alert: GpuSilent, each: gpu, silent_for: GPU, labels: {severity: error}}
      - {alert: JobSilent, each: job, silent_for: 3m, labels: {severity: error}}
      - {alert: NodeSilent, each: node, silent_for: NODE, labels: {severity: error}}
"""
DIES_S, BACK_S, END_S = 300.0, 1_200.0, 1_800.0
STAYS_AWAY = "GPU-7"


class World:
    """A node of eight GPUs with a job on each half, seen by a gateway every 30 s."""

    def __init__(self, rules: str, to: Rig) -> None:
        self._to = to
        self._clock = to.clock
        self._store = Store(load_registry(), clock=to.clock)
        self._incidents = Incidents(StoreNodes(self._store))
        self.reported: list[Finding] = []
        self._engine = Engine(
            rules_from_text(rules, load_registry()),
            NumpyEngine(self._store),
            self._take,
            last_seen=StoreLastSeen(self._store),
            clock=to.clock,
        )
        self._start_s = to.clock.now_s()

    def _take(self, findings: Sequence[Finding]) -> None:
        reported = self._incidents.report(findings)
        self.reported += reported
        self._to.handle(*reported)

    def live(self, end_s: float) -> None:
        while (after_s := self._clock.now_s() - self._start_s) < end_s:
            now_s = self._clock.now_s()
            self._store.write(list(_seen(after_s, now_s)))
            self._engine.tick(now_s)
            self._to.run(30)

    def active(self) -> int:
        return len(self._engine.observations(self._clock.now_s()))


def _seen(after_s: float, now_s: float) -> Iterator[Observation]:
    """Nothing while the node is dead; one of its GPUs does not come back."""
    if DIES_S <= after_s < BACK_S:
        return
    for number in range(8):
        name, job = f"GPU-{number}", f"job-{number // 4}"
        if after_s < DIES_S or name != STAYS_AWAY:
            attributes = {"hw.id": name, "host.name": "n1", "ofu.job.id": job}
            window = Window(now_s - 30, now_s)
            yield Observation(Entity("gpu", name, attributes), window, {"ofu": 0.4})


@pytest.mark.parametrize(("gpu", "node"), [("2m", "2m"), ("3m", "2m"), ("2m", "150s")])
def test_a_node_that_dies_with_its_gpus_and_jobs_is_one_notification(gpu: str, node: str) -> None:
    rules = RULES.replace("silent_for: GPU", f"silent_for: {gpu}").replace("NODE,", f"{node},")
    with rig({"group_by": ["..."], "group_wait": "1m"}) as to:
        world = World(rules, to)
        world.live(BACK_S)
        assert to.names() == [("firing", ["f:n1"])]
        assert world.active() == 11
        opened = [f for f in world.reported if f.kind == "opened"]
        assert len(opened) == 11
        assert sum(f.rule == "GpuSilent" for f in opened) == 8


def test_a_gpu_that_does_not_come_back_with_its_node_is_notified_by_itself() -> None:
    rules = RULES.replace("silent_for: GPU", "silent_for: 2m").replace("NODE,", "2m,")
    with rig({"group_by": ["..."]}) as to:
        world = World(rules, to)
        world.live(BACK_S)
        assert to.names() == [("firing", ["f:n1"])]
        world.live(END_S)
        assert sorted(to.names()) == [("firing", [f"f:{STAYS_AWAY}"]), ("resolved", ["r:n1"])]
