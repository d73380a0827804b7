"""While rules fire, every exporter of the agent carries the same values."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from itertools import takewhile
from pathlib import Path
from urllib.request import urlopen

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from otel_ofu.app.demo_collectors import DemoCollector
from otel_ofu.app.pipeline import Pipeline
from otel_ofu.app.prepare import deriver, prepare
from otel_ofu.app.replay import Replay, demo_instants
from otel_ofu.app.telemetry import Dependencies, Telemetry
from otel_ofu.catalog.prometheus_names import label_value, metric_name
from otel_ofu.catalog.registry import Kind, load_registry
from otel_ofu.config import ReadConfig, config_from_text
from otel_ofu.export.console import COLUMNS, DASH, GpuTable
from otel_ofu.export.prometheus import DEFAULT_LABELS
from otel_ofu.model import Attribute
from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.labels import label_name
from otel_ofu.sources.demo import DemoSource
from tests.export.samples import attributes
from tests.export.servers import HttpServer, http_server
from tests.waiting import HANGS_S

Series = Mapping[tuple[str, frozenset[tuple[str, str]]], float]

HOST = "node-1"
START_S = 1_700_000_040.0
END_S = START_S + 420.0
GPUS = 2
RULES = """\
groups:
  - name: test
    interval: 30s
    rules:
      - alert: LowGpu
        each: gpu
        expr: avg(ofu, 2m) < 30%
        for: 1m
        labels: {severity: warning}
        annotations: {summary: "OFU is {{ $value | percent }}"}
      - alert: LowJob
        each: job
        expr: avg(job_ofu, 2m) < 30%
        for: 1m
        labels: {severity: warning}
        annotations: {summary: "OFU is {{ $value | percent }}"}
"""
CONFIG = """\
rules: {{paths: ['{folder}/rules.yaml']}}
exporters:
  otlp_http: {{endpoint: '{endpoint}'}}
  prometheus: {{listen: '127.0.0.1:0'}}
  file: {{path: '{folder}/out.jsonl'}}
"""


@dataclass(frozen=True)
class Exported:
    """What each exporter carried of the last round; of the table, the cells by GPU index."""

    otlp: Series
    file: Series
    page: Series
    table: Mapping[str, list[str]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """The demo on virtual time, until after its rules fire, into all exporters at once."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "rules.yaml").write_text(RULES)
    screen = StringIO()
    with http_server() as backend:
        page = _played(folder, backend, screen)
    return Exported(
        otlp=_last(_received(backend)),
        file=_last(_written(folder / "out.jsonl")),
        page=_scraped(page),
        table=_cells(screen.getvalue()),
    )


def _played(folder: Path, backend: HttpServer, screen: StringIO) -> str:
    """Plays and closes; the page as it stood after the last round."""
    config = config_from_text(CONFIG.format(folder=folder, endpoint=backend.url))
    clock = VirtualClock(START_S)
    source = DemoSource("debug-flag", gpus=GPUS, start_s=START_S)
    table = GpuTable(Console(file=screen, width=200), title="")
    shared = Dependencies(prepare(ReadConfig(config), {}), clock, None, HOST)
    telemetry = Telemetry(shared, [table], threading.Event())
    pipeline = Pipeline(shared, telemetry, lambda _text: None)
    pipeline.collectors.append(DemoCollector(shared.prepared, source, HOST))
    replay = Replay(
        source, deriver(config.receivers.gpu, HOST), pipeline.take, clock, pipeline.judge
    )
    pipeline.start()
    try:
        instants = takewhile(lambda now_s: now_s <= END_S, demo_instants(START_S, 10.0))
        replay.play(instants, 0.0, threading.Event())
        _, url, _ = telemetry.endpoints  # OTLP, the page, the file
        with urlopen(url, timeout=HANGS_S) as reply:
            return str(reply.read(), "utf-8")
    finally:
        pipeline.close(HANGS_S)


def _received(backend: HttpServer) -> Iterator[ExportMetricsServiceRequest]:
    for got in backend.got:
        if got.path == "/v1/metrics":
            yield ExportMetricsServiceRequest.FromString(got.raw)


def _written(path: Path) -> Iterator[ExportMetricsServiceRequest]:
    for line in path.read_text().splitlines():
        if '"resourceMetrics"' in line:
            yield Parse(line, ExportMetricsServiceRequest())


def _last(requests: Iterable[ExportMetricsServiceRequest]) -> Series:
    """The values of the last round, under the names and labels that Prometheus gives them."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for request in requests:
        for resource in request.resource_metrics:
            known = attributes(resource.resource.attributes)
            common = {name: known[name] for name in DEFAULT_LABELS if name in known}
            for scope in resource.scope_metrics:
                for key, value in _points(scope.metrics, common):
                    assert key not in found
                    found[key] = value
    return found


def _points(
    metrics: Iterable[Metric], common: Mapping[str, Attribute]
) -> Iterator[tuple[tuple[str, frozenset[tuple[str, str]]], float]]:
    for metric in metrics:
        summed: Kind = "counter" if metric.sum.is_monotonic else "updown"
        kind: Kind = "gauge" if metric.HasField("gauge") else summed
        name = metric_name(metric.name, metric.unit, kind).metric
        for point in (metric.gauge if kind == "gauge" else metric.sum).data_points:
            if point.time_unix_nano == round(END_S * 1e9) and not point.flags:
                yield (name, _labels({**common, **attributes(point.attributes)})), point.as_double


def _labels(known: Mapping[str, Attribute]) -> frozenset[tuple[str, str]]:
    texts = {label_name(name): label_value(value) for name, value in known.items()}
    return frozenset((name, text) for name, text in texts.items() if text)


def _scraped(page: str) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def _cells(screen: str) -> Mapping[str, list[str]]:
    rows = [re.split(r"\s{2,}", line.strip()) for line in screen.splitlines()]
    return {row[0]: row[-len(COLUMNS) :] for row in rows if row[0].isdigit()}


def _of_gpu(series: Series, key: str) -> list[float]:
    """The values of a registry key on the GPUs, in the order of their UUIDs."""
    registry = load_registry()
    metric, own = registry.metric(key), _labels(registry.point_attributes(key))
    name = metric_name(metric.name, metric.unit, metric.kind).metric
    found = {
        dict(labels)["hw_id"]: value
        for (each, labels), value in series.items()
        if each == name and own <= labels and "hw_id" in dict(labels)
    }
    return [found[uuid] for uuid in sorted(found)]


def test_the_rules_fire_beside_the_values_of_their_entities(exported: Exported) -> None:
    active = [dict(labels) for name, labels in exported.otlp if name == "ofu_finding_active"]
    assert sorted(labels["ofu_rule_id"] for labels in active) == ["LowGpu"] * GPUS + ["LowJob"]
    assert len(_of_gpu(exported.otlp, "ofu")) == GPUS


def test_the_file_carries_what_is_sent(exported: Exported) -> None:
    assert exported.file == exported.otlp


def test_the_page_carries_what_is_sent(exported: Exported) -> None:
    assert exported.page == exported.otlp


def test_the_table_shows_what_is_sent(exported: Exported) -> None:
    assert sorted(exported.table) == [str(index) for index in range(GPUS)]
    for number, column in enumerate(COLUMNS):
        sent = [column.show(value) for value in _of_gpu(exported.otlp, column.key)]
        shown = [exported.table[index][number] for index in sorted(exported.table)]
        assert shown == (sent or [DASH] * GPUS), column.title
