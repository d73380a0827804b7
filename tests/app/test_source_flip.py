"""A GPU that changes its source: its series go on wherever they are seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_ofu.app.prepare import deriver
from otel_ofu.app.replay import NoSamplerMeter
from otel_ofu.app.sampler import Sampler
from otel_ofu.app.source_reader import ReadResult
from otel_ofu.catalog.registry import load_registry
from otel_ofu.config import Gpu
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.export.prometheus import PageOptions, PrometheusPage
from otel_ofu.model import Attribute, Device, Observation, Reading, Window
from tests.export.samples import attributes, request

COMMON: dict[str, Attribute] = {"service.name": "otel-ofu", "host.name": "n1"}
BEFORE = Device("GPU-1", 0, "NVIDIA H100 80GB HBM3", pci_address="0000:1B:00.0", serial="1")
AFTER = Device("GPU-1", 0, "NVIDIA H100 80GB HBM3", driver_version="580.1")
STATE = "ofu_gpu_source"


class Flip:
    """Two rounds of DCGM, then NVML."""

    def read(self, now_s: float, budget_s: float) -> Sequence[ReadResult]:
        source, device = ("dcgm", BEFORE) if now_s < 25 else ("nvml", AFTER)
        values = {"tensor_active": 0.5, "sm_clock": 1.83e9, "power": 500.0}
        reading = Reading(device, Window(now_s - 10, now_s), source, values)
        return [ReadResult([reading], source=source)]

    def close(self, deadline_s: float) -> None:
        """Nothing is held."""


def rounds() -> Iterator[Sequence[Observation]]:
    seen: list[Sequence[Observation]] = []
    derived = deriver(Gpu(), "n1")
    sampler = Sampler(Flip(), derived, seen.append, budget_s=1.0, meter=NoSamplerMeter())
    for now_s in (10.0, 20.0, 30.0, 40.0):
        sampler.tick(now_s)
    return iter(seen)


def test_the_entity_and_so_the_row_in_the_history_stays() -> None:
    entities = [observations[0].entity for observations in rounds()]
    assert entities == [entities[0]] * 4


def test_over_otlp_resource_and_points_have_the_attributes_that_they_had() -> None:
    encoder = MetricEncoder(load_registry(), COMMON, EncoderOptions(0.0))
    series = set()
    for observations in rounds():
        (body,) = encoder.encode(observations)
        (resource,) = request(body).resource_metrics
        metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
        (point,) = metrics["ofu.gpu.utilization"].gauge.data_points
        assert point.as_double == 0.5
        named = attributes(resource.resource.attributes) | attributes(point.attributes)
        series.add(frozenset(named.items()))
    assert len(series) == 1


def test_on_the_page_the_value_keeps_its_labels_and_the_state_changes() -> None:
    page = PrometheusPage(load_registry(), COMMON, PageOptions(10.0))
    ofu, states = set(), []
    for observations in rounds():
        page.update(observations)
        lines = page.text(observations[0].window.end_s).splitlines()
        ofu |= {
            line.split("}")[0] for line in lines if line.startswith("ofu_gpu_utilization_ratio{")
        }
        states += [
            line.split('ofu_source="')[1][:4]
            for line in lines
            if line.startswith(STATE) and "{" in line
        ]
    assert len(ofu) == 1
    assert states == ["dcgm", "dcgm", "nvml", "nvml"]
