"""The first XID of a GPU, from the driver to a rule that fires and to OTLP."""

from __future__ import annotations

from otel_ofu.catalog.registry import load_registry
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.model import Finding
from otel_ofu.rules.files.load import rules_from_text
from otel_ofu.rules.lifecycle.engine import Engine
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.store import Store
from tests.export.samples import points
from tests.sources.nvml.rig import Rig
from tests.sources.nvml.test_xids import xids
from tests.waiting import wait_until

RULE = """
groups:
  - name: g
    interval: 10s
    rules:
      - alert: FellOffTheBus
        each: gpu
        expr: increase(xid:79, 2m) > 0
      - alert: NoPower
        each: gpu
        expr: avg(power, 2m) == 0
"""
HALF = 7
"""Rounds in which half of the window gets its samples."""


class Node:
    """The rest of an agent behind the rig: derive, store and rules, OTLP."""

    def __init__(self, rig: Rig) -> None:
        registry, self.rig = load_registry(), rig
        rules = rules_from_text(RULE, registry)
        retention = retention_for(rules.expressions(), 10.0)
        self.deriver = Deriver(DeriverSettings())
        self.store = Store(registry, retention, clock=rig.clock)
        self.found: list[Finding] = []
        self.engine = Engine(rules, NumpyEngine(self.store), self.found.extend, clock=rig.clock)
        self.encoder = MetricEncoder(registry, {}, EncoderOptions(rig.clock.now_s()))

    def tick(self) -> list[tuple[float, float, float]]:
        """One round; start, time and value of the points of XIDs, in seconds since 1970."""
        seen = self.deriver.derive(self.rig.gpu())
        self.store.write([seen])
        self.engine.tick(self.rig.clock.now_s())
        return [
            (point.start_time_unix_nano / 1e9, point.time_unix_nano / 1e9, point.as_double)
            for _, name, point in points(self.encoder.encode([seen]))
            if name == "hw.errors" and "xid_79" in str(point.attributes)
        ]

    def fail(self) -> None:
        wanted = self._count() + 1
        self.rig.stub.xid(0, 79)
        wait_until(lambda: self._count() == wanted, "the XID")

    def _count(self) -> float:
        return xids(self.rig.gpu(after_s=0)).get("xid:79", 0.0)


def test_the_first_xid_of_a_gpu_fires_a_rule_and_begins_with_0_over_otlp(rig: Rig) -> None:
    node = Node(rig)
    assert [point for _ in range(HALF) for point in node.tick()] == []
    absent_s = rig.clock.now_s()
    node.fail()
    assert node.tick() == [(absent_s, absent_s, 0), (absent_s, absent_s + 10, 1)]
    assert [finding.kind for finding in node.found] == ["opened"]
    assert node.tick() == [(absent_s, absent_s + 20, 1)]


def test_an_xid_before_the_first_reading_counts_only_from_there(rig: Rig) -> None:
    started_s = rig.clock.now_s()
    node = Node(rig)
    rig.open()
    node.fail()
    assert [value for _ in range(HALF) for *_, value in node.tick()] == [1] * HALF
    assert not node.found
    node.fail()
    assert node.tick() == [(started_s, rig.clock.now_s(), 2)]
    assert [finding.kind for finding in node.found] == ["opened"]
