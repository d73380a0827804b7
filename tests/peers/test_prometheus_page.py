"""A real Prometheus reads our page, and its OTLP receiver agrees with us about names and ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from otel_ofu.catalog.prometheus_names import metric_name
from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.export.otlp import transport_for
from otel_ofu.export.prometheus import PageOptions, PrometheusPage, page_server
from otel_ofu.export.settings import OtlpOptions, PrometheusSettings, resolve
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.outbox.outcome import Delivered
from tests.peers.processes import Prometheus
from tests.waiting import wait_until

pytestmark = pytest.mark.peer

COMMON = {"service.name": "otel-ofu", "host.name": "node-1"}
StartPrometheus = Callable[..., Prometheus]


def keys(registry: Registry) -> list[str]:
    """One key for each metric that is no agent's own."""
    known = {m.name: k for k, m in registry.metrics.items() if m.entity != "agent"}
    metrics = registry.metrics
    return [":".join([key, *("7" for _ in metrics[key].labels)]) for key in known.values()]


def observation(end_s: float, values: dict[str, float], job: str = "1") -> Observation:
    entity = Entity("gpu", f"GPU-1/{job}", {"hw.id": "GPU-1", "ofu.job.id": job})
    starts_s = dict.fromkeys(values, end_s - 60)
    return Observation(entity, Window(end_s - 10, end_s), values, starts_s=starts_s)


def send(peer: Prometheus, encoder: MetricEncoder, *observations: Observation) -> None:
    settings = resolve(OtlpOptions(endpoint=f"{peer.url}/api/v1/otlp"), "metrics")
    with closing(transport_for(settings)) as transport:
        for body in encoder.encode(observations):
            assert transport.send(body, 10.0) == Delivered()


def names(found: list[Any]) -> set[str]:
    return {series["metric"]["__name__"] for series in found}


def test_prometheus_scrapes_the_page(prometheus: StartPrometheus) -> None:
    registry = load_registry()
    page = PrometheusPage(registry, COMMON, PageOptions(interval_s=1e9))
    page.update([observation(1.0, dict.fromkeys(keys(registry), 1.0))])
    server = page_server(lambda: page.text(1.0), PrometheusSettings(listen="127.0.0.1:0"))
    server.start()
    try:
        peer = prometheus(scrape={"ofu": [f"127.0.0.1:{server.port}"]})
        found = wait_until(lambda: peer.query('{hw_id="GPU-1"}'), "a scrape")
    finally:
        server.close()
    expected = {
        metric_name(m.name, m.unit, m.kind).metric for m in map(registry.metric, keys(registry))
    }
    assert names(found) == expected
    assert {series["metric"]["ofu_job_id"] for series in found} == {"1"}


def test_the_otlp_receiver_gives_the_same_names(prometheus: StartPrometheus) -> None:
    registry = load_registry()
    peer = prometheus(flags=["--web.enable-otlp-receiver"])
    now_s = time.time()
    encoder = MetricEncoder(registry, COMMON, EncoderOptions(now_s - 60))
    send(peer, encoder, observation(now_s, dict.fromkeys(keys(registry), 1.0)))
    wanted = '{hw_id="GPU-1", __name__!="target_info"}'
    found = wait_until(lambda: peer.query(wanted, now_s), "the points")
    assert names(found) == {
        metric_name(m.name, m.unit, m.kind).metric for m in map(registry.metric, keys(registry))
    }
    assert {series["metric"]["instance"] for series in found} == {"GPU-1"}


def test_a_series_ends_in_prometheus_with_its_job_or_its_gap_and_no_sample_is_refused(
    prometheus: StartPrometheus,
) -> None:
    peer = prometheus(flags=["--web.enable-otlp-receiver"])
    start_s = float(int(time.time()) - 50)
    encoder = MetricEncoder(load_registry(), COMMON, EncoderOptions(start_s))
    both = {"ofu": 0.5, "sm_active": 0.9}
    send(peer, encoder, observation(start_s, both, "1"))
    send(peer, encoder, observation(start_s + 10, both | {"ofu": 0.25}, "2"))
    send(peer, encoder, observation(start_s + 20, {"sm_active": 0.8}, "2"))
    send(peer, encoder)

    def value(name: str, after_s: float) -> list[str]:
        return [s["value"][1] for s in peer.query(name, start_s + after_s)]

    ofu, sm = "ofu_gpu_utilization_ratio", "ofu_gpu_sm_utilization_ratio"
    wait_until(lambda: value(sm, 20.0), "the points")
    assert [value(ofu, t) for t in (0.0, 5.0, 10.0, 15.0, 20.0)] == [
        ["0.5"], [], ["0.25"], ["0.25"], [],
    ]  # fmt: skip
    assert [value(sm, t) for t in (10.0, 20.0, 21.0)] == [["0.9"], ["0.8"], []]
