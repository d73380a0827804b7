"""Entities that fell silent: seen once, and then nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Entity, EntityKind, Finding, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.files import SilenceCondition, rules_from_text
from otel_ofu.rules.lifecycle.engine import Engine
from otel_ofu.rules.lifecycle.evaluation import StoreLastSeen, Times, judge_silence
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.verdicts import CLEAR, HOLDS, UNKNOWN
from otel_ofu.store import Store

START_S = 1_728_000_000.0


class Seen:
    """Entities with the time at which each was seen last."""

    def __init__(self, *seen: tuple[Entity | None, float]) -> None:
        self._seen = seen

    def last_seen(self, kind: EntityKind) -> tuple[Sequence[Entity | None], Times]:
        assert kind == "gpu"
        return [entity for entity, _ in self._seen], np.array([s for _, s in self._seen])


def gpu(entity_id: str, device: str, job: str = "7") -> Entity:
    return Entity("gpu", entity_id, {"hw.id": device, "ofu.job.id": job, "host.name": "n1"})


def verdicts(seen: Seen, now_s: float, running_s: float = 0.0) -> list[int]:
    silent = judge_silence(seen, "gpu", SilenceCondition(120.0), (now_s, running_s))
    return [int(verdict) for verdict in silent.verdicts]


def test_an_entity_is_silent_when_it_was_not_seen_for_long_enough() -> None:
    seen = Seen((gpu("a", "a"), 1000.0), (None, 0.0), (gpu("b", "b"), 1100.0))
    assert verdicts(seen, 1119.0) == [CLEAR, UNKNOWN, CLEAR]
    assert verdicts(seen, 1120.0) == [HOLDS, UNKNOWN, CLEAR]


def test_no_entity_is_silent_before_the_agent_ran_so_long() -> None:
    seen = Seen((gpu("a", "a"), 1000.0))
    assert verdicts(seen, 9000.0, running_s=8990.0) == [CLEAR]
    assert verdicts(seen, 9110.0, running_s=8990.0) == [HOLDS]


def test_a_gpu_that_changed_its_job_is_not_silent() -> None:
    old, new = gpu("G/7", "G", "7"), gpu("G/8", "G", "8")
    assert verdicts(Seen((old, 1000.0), (new, 2000.0)), 2010.0) == [CLEAR, CLEAR]
    assert verdicts(Seen((new, 2000.0), (old, 1000.0)), 5000.0) == [HOLDS, CLEAR]


RULES = """
groups:
  - name: g
    rules:
      - alert: Quiet
        each: KIND
        silent_for: 2m
        annotations: {summary: "{{ $entity }} silent for {{ $value | duration }}"}
"""


@pytest.mark.parametrize(("kind", "who"), [("gpu", "G"), ("job", "7"), ("node", "n1")])
def test_gpus_jobs_and_nodes_are_seen_through_the_store(kind: str, who: str) -> None:
    clock, found = VirtualClock(START_S), list[Finding]()
    store = Store(load_registry(), clock=clock)
    rules = rules_from_text(RULES.replace("KIND", kind), load_registry())
    engine = Engine(
        rules, NumpyEngine(store), found.extend, last_seen=StoreLastSeen(store), clock=clock
    )
    for number in range(10):
        now_s = START_S + 30 * number
        clock.set(now_s)
        if number < 3:
            seen = Observation(gpu("G", "G"), Window(now_s - 10, now_s), {"ofu": 0.4})
            store.write([seen])
        engine.tick(now_s)
    assert [(c.kind, c.entity and c.entity.id, c.at_s - START_S) for c in found] == [
        ("opened", who, 180.0)
    ]
    assert found[0].summary == f"{who} silent for 2m"
    assert (found[0].value, found[0].threshold) == (120.0, 120.0)
