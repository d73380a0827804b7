"""A real Collector gets exactly what was sent, by each protocol, with and without TLS, in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.agent import AgentMetrics
from otel_ofu.export.file import json_line
from otel_ofu.export.logs import encode_logs
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.export.otlp import check, transport_for
from otel_ofu.export.request import unpack
from otel_ofu.export.settings import OtlpOptions, OtlpSettings, Signal, resolve
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.event import WARN, Event
from otel_ofu.outbox.batch import Body, Limits, Priority
from otel_ofu.outbox.outcome import Transport
from otel_ofu.outbox.queues import Outbox, Queue
from otel_ofu.outbox.sender import Backoff, Sender
from tests.peers.certs import Certificates
from tests.peers.processes import Collector, ServerTls
from tests.waiting import HANGS_S, wait_until

pytestmark = pytest.mark.peer

START_S = 1_700_000_000.0
COMMON = {"service.name": "otel-ofu", "host.name": "node-1"}
SIGNALS: tuple[Signal, ...] = ("metrics", "logs")
PROTOCOLS = ("http/protobuf", "grpc")

StartCollector = Callable[..., Collector]


def gpu(number: int) -> Entity:
    return Entity(
        "gpu", f"GPU-{number}", {"hw.id": f"GPU-{number}", "ofu.gpu.index": number, "x": 0.1}
    )


def observation(number: int, tick: int) -> Observation:
    end_s = START_S + 10.0 * tick
    values = {"ofu": 0.4375, "tensor_active": 0.5, "flop_count": 5e15 * tick, "xid:79": 1.0}
    return Observation(
        gpu(number), Window(end_s - 10.0, end_s), values, starts_s={"flop_count": START_S}
    )


def ticks(count: int) -> list[Body]:
    """Ticks of two GPUs, one of which is gone at the end."""
    encoder = MetricEncoder(load_registry(), COMMON, EncoderOptions(START_S, "1.0"))
    rounds = [[observation(g, t) for g in (0, 1)] for t in range(1, count)]
    return [b for r in [*rounds, [observation(0, count)]] for b in encoder.encode(r)]


def events() -> list[Body]:
    event = Event("ofu.finding.opened", WARN, "slow", START_S, {"ofu.rule.id": "r"}, gpu(0))
    return encode_logs([event], COMMON, "1.0")


def settings_for(
    collector: Collector,
    protocol: str,
    signal: Signal,
    **options: Any,  # noqa: ANN401 - passed on
) -> OtlpSettings:
    grpc = protocol == "grpc"
    endpoint = collector.grpc_endpoint if grpc else collector.http_endpoint
    return resolve(OtlpOptions(protocol=protocol, endpoint=endpoint, **options), signal)


@contextmanager
def sending(
    collector: Collector,
    protocol: str,
    path: Path | None = None,
    **options: Any,  # noqa: ANN401 - passed on
) -> Iterator[tuple[Queue, Sender]]:
    """A queue with a sender on its thread; the sender is shut down at the end."""
    transports: dict[str, Transport] = {
        signal: transport_for(settings_for(collector, protocol, signal, **options))
        for signal in SIGNALS
    }
    with closing(Outbox(path, {"otlp": Limits()}, SystemClock())) as outbox:
        queue = outbox.queues["otlp"]
        sender = Sender(queue, transports, SystemClock(), Backoff(0.05, 0.2))
        sender.start()
        try:
            yield queue, sender
        finally:
            sender.shutdown(HANGS_S)


def arrived(collector: Collector, signal: Signal, count: int) -> list[Message]:
    """The first requests that the Collector wrote to its file."""
    kind = ExportMetricsServiceRequest if signal == "metrics" else ExportLogsServiceRequest
    read = collector.metrics if signal == "metrics" else collector.logs
    found = wait_until(lambda: len(r := read()) >= count and r, f"{count} {signal}")
    return [ParseDict(tree, kind()) for tree in found or []]


def sent(bodies: Sequence[Body]) -> list[Message]:
    return [unpack(body) for body in bodies]


@pytest.mark.parametrize("compression", ["gzip", "none"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_arrives_is_what_was_sent(
    collector: StartCollector, protocol: str, compression: str
) -> None:
    peer = collector()
    metrics, logs = ticks(3), events()
    with sending(peer, protocol, compression=compression) as (queue, sender):
        for body in metrics:
            queue.put(body)
        for body in logs:
            queue.put(body, Priority.EVENTS)
        assert arrived(peer, "metrics", len(metrics)) == sent(metrics)
        assert arrived(peer, "logs", len(logs)) == sent(logs)
    stats = sender.stats()
    points = sum(body.points for body in [*metrics, *logs])
    assert (stats.sent, stats.retries, stats.dropped, stats.error) == (points, 0, {}, "")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_mutual_tls_and_a_token(
    collector: StartCollector, certificates: Certificates, protocol: str
) -> None:
    peer = collector(tls=ServerTls(certificates.server, certificates.ca), token="s3cret")
    files: dict[str, Any] = {
        "ca_file": str(certificates.ca),
        "cert_file": str(certificates.client.cert),
        "key_file": str(certificates.client.key),
    }
    token: dict[str, Any] = {"headers": {"Authorization": "Bearer s3cret"}}
    metrics = ticks(2)
    with sending(peer, protocol, **files, **token) as (queue, _):
        for body in metrics:
            queue.put(body)
        assert arrived(peer, "metrics", len(metrics)) == sent(metrics)
    assert check(settings_for(peer, protocol, "metrics", **files, **token)).problem == ""
    stranger = files | {
        "cert_file": str(certificates.stranger.cert),
        "key_file": str(certificates.stranger.key),
    }
    for wrong in (files, {**token}, {**stranger, **token}):
        assert check(settings_for(peer, protocol, "metrics", **wrong)).problem


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_collector_that_is_killed_and_comes_back_gets_everything_in_order(
    collector: StartCollector, tmp_path: Path, protocol: str
) -> None:
    peer = collector()
    metrics = ticks(60)
    with sending(peer, protocol, tmp_path / "state" / "outbox.sqlite") as (queue, sender):
        for body in metrics[:20]:
            queue.put(body)
        arrived(peer, "metrics", 20)
        wait_until(lambda: not len(queue), "an empty queue")
        peer.kill()
        for body in metrics[20:40]:
            queue.put(body)
        wait_until(lambda: sender.stats().retries >= 3, "attempts that fail")
        assert len(queue) == 20
        peer.start()
        for body in metrics[40:]:
            queue.put(body)
        assert arrived(peer, "metrics", 60) == sent(metrics)
        wait_until(lambda: not sender.stats().error, "a sender without an error")
        assert sender.stats().dropped == {}


def test_an_agent_that_ends_while_the_collector_is_away_sends_the_rest_at_its_next_start(
    collector: StartCollector, tmp_path: Path
) -> None:
    peer = collector()
    peer.kill()
    path, metrics = tmp_path / "state" / "outbox.sqlite", ticks(10)
    with sending(peer, "http/protobuf", path) as (queue, sender):
        for body in metrics:
            queue.put(body)
        wait_until(lambda: sender.stats().retries, "an attempt that fails")
    peer.start()
    with sending(peer, "http/protobuf", path):
        assert arrived(peer, "metrics", 10) == sent(metrics)


def test_check_tells_the_two_ports_apart(collector: StartCollector) -> None:
    peer = collector()
    assert check(settings_for(peer, "http/protobuf", "logs")).problem == ""
    assert check(settings_for(peer, "grpc", "logs"), "logs").problem == ""
    mixed = resolve(OtlpOptions(protocol="grpc", endpoint=peer.http_endpoint), "metrics")
    assert check(mixed).problem.startswith("gRPC ")
    mixed = resolve(OtlpOptions(endpoint=peer.grpc_endpoint), "metrics")
    assert check(mixed).problem


def test_our_json_lines_are_those_of_the_collectors_file_exporter(
    collector: StartCollector,
) -> None:
    peer = collector()
    agent = AgentMetrics(load_registry(), COMMON, "agent-1")
    agent.sampled("nvml", 0.004)
    own = agent.collect({})
    agent.close()
    assert own is not None
    metrics, logs = [*ticks(2), own], events()
    with sending(peer, "http/protobuf") as (queue, _):
        for body in [*metrics, *logs]:
            queue.put(body)
        arrived(peer, "metrics", len(metrics))
        arrived(peer, "logs", len(logs))
    assert [json.loads(json_line(b)) for b in metrics] == peer.metrics()
    assert [json.loads(json_line(b)) for b in logs] == peer.logs()
