"""The agent's own metrics leave by the same way, as the registry says."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.agent import AgentMetrics, agent_id
from otel_ofu.outbox.queues import QueueStats
from tests.export.samples import COMMON, attributes, request

Points = dict[str, dict[frozenset[tuple[str, Any]], Any]]


@contextmanager
def agent() -> Iterator[AgentMetrics]:
    with closing(AgentMetrics(load_registry(), COMMON, "agent-1")) as made:
        yield made


def collected(made: AgentMetrics, queues: dict[str, QueueStats] | None = None) -> Points:
    body = made.collect(queues or {})
    assert body is not None
    (resource,) = request(body).resource_metrics
    known = attributes(resource.resource.attributes)
    assert known == {**COMMON, "service.instance.id": "agent-1"}
    found: Points = {}
    for metric in resource.scope_metrics[0].metrics:
        kind = getattr(metric, str(metric.WhichOneof("data")))
        definition = next(m for m in load_registry().metrics.values() if m.name == metric.name)
        assert (metric.unit, definition.entity) == (definition.unit, "agent")
        found[metric.name] = {
            frozenset(attributes(p.attributes).items()): p for p in kind.data_points
        }
    return found


def test_nothing_reported_is_nothing_sent() -> None:
    with agent() as made:
        assert made.collect({}) is None


def test_troubles_are_counted_and_up_is_the_last_answer_of_each_target() -> None:
    with agent() as made:
        made.troubled("scrape", "http://b", "failed")
        made.troubled("scrape", "http://b", "failed")
        made.answered("scrape", {"http://a": True, "http://gone": True})
        made.answered("scrape", {"http://a": True, "http://b": False})
        found = collected(made)
    ((key, point),) = found["ofu.source.troubles"].items()
    assert dict(key) == {
        "ofu.source": "scrape", "ofu.source.target": "http://b", "error.type": "failed",
    }  # fmt: skip
    assert point.as_int == 2
    up = found["ofu.source.up"]
    assert {dict(k)["ofu.source.target"]: p.as_int for k, p in up.items()} == {
        "http://a": 1, "http://b": 0,
    }  # fmt: skip


def test_what_a_source_costs_is_reported_as_it_stands() -> None:
    with agent() as made:
        made.cost("nvml", {"clock_sampler_time": 1.0, "clock_sampler_interval": 0.2})
        made.cost("nvml", {"clock_sampler_time": 1.5, "clock_sampler_interval": 0.4})
        made.cost("dcgm", {})
        found = collected(made)
    ((key, spent),) = found["ofu.sampler.clock.time"].items()
    assert (dict(key), spent.as_double) == ({"ofu.source": "nvml"}, 1.5)
    ((_, interval),) = found["ofu.sampler.clock.interval"].items()
    assert interval.as_double == 0.4


def test_counts_and_durations_carry_the_attributes_of_the_registry() -> None:
    with agent() as made:
        made.sampled("nvml", 0.004)
        made.sampled("nvml", 0.3)
        made.missed("dcgm", "failed")
        made.exported("otlp", "sent", 320)
        made.exported("otlp", "sent", 320)
        made.exported("otlp", "dropped", 5)
        found = collected(made)
    ((key, duration),) = found["ofu.sampler.duration"].items()
    assert key == {("ofu.source", "nvml")}
    assert (duration.count, duration.sum) == (2, 0.304)
    assert [n for n in duration.bucket_counts if n] == [1, 1]
    missed = found["ofu.sampler.missed"]
    assert {k: p.as_int for k, p in missed.items()} == {
        frozenset({("ofu.source", "dcgm"), ("error.type", "failed")}): 1
    }
    assert {
        dict(k)["ofu.export.outcome"]: p.as_int for k, p in found["ofu.export.points"].items()
    } == {
        "sent": 640,
        "dropped": 5,
    }


def test_queues_are_told_as_they_are_at_that_moment() -> None:
    with agent() as made:
        first = collected(made, {"otlp": QueueStats(7, 100, {})})
        assert [p.as_int for p in first["ofu.export.queue.size"].values()] == [7]
        second = collected(made, {"otlp": QueueStats(0, 100, {})})
        assert [p.as_int for p in second["ofu.export.queue.size"].values()] == [0]
        ((key, capacity),) = second["ofu.export.queue.capacity"].items()
        assert dict(key) == {"ofu.exporter": "otlp"}
        assert capacity.as_int == 100


def test_the_id_of_an_agent_stays_the_same(tmp_path: Path) -> None:
    first = agent_id(tmp_path / "state", "node-1")
    assert str(uuid.UUID(first)) == first
    assert agent_id(tmp_path / "state", "renamed") == first
    assert agent_id(tmp_path / "other", "node-1") != first


@pytest.mark.parametrize("content", ["", "not an id", "\xff"])
def test_an_id_file_that_is_broken_is_written_anew(tmp_path: Path, content: str) -> None:
    (tmp_path / "agent-id").write_text(content, "latin-1")
    made = agent_id(tmp_path, "node-1")
    assert agent_id(tmp_path, "node-1") == made


def test_without_a_folder_the_id_follows_from_the_host() -> None:
    assert agent_id(None, "node-1") == agent_id(None, "node-1") != agent_id(None, "node-2")
