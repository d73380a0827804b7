"""The clients that people have: OpenTelemetry's Python SDK, and a real Collector in between."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from grpc import ssl_channel_credentials
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (
    OTLPMetricExporter as GrpcExporter,
)
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import (
    OTLPMetricExporter as HttpExporter,
)
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from otel_ofu.catalog.registry import load_registry
from otel_ofu.mfu import built_in_names
from otel_ofu.model import Observation, Window
from otel_ofu.model.clock import SystemClock
from otel_ofu.net.tls import ServerTls as ReceiverTls
from otel_ofu.receive import Buffer, ListenerSettings, OtlpReceiver, OtlpReceiverSettings
from otel_ofu.receive.decode_worker import DecodeTask
from otel_ofu.store import Store
from tests.peers.certs import Certificates
from tests.peers.child import HOST
from tests.peers.conftest import factory
from tests.peers.processes import Collector, ServerTls
from tests.receive.bodies import gpu, ticks, values
from tests.waiting import HANGS_S, wait_until

Json = dict[str, Any]


class Gateway:
    """A receiver on free ports and its store, on the machine's clock."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - passed on
        self.store = Store(load_registry())
        free = ListenerSettings(endpoint=f"{HOST}:0")
        given = OtlpReceiverSettings(http=free, grpc=free, **settings)
        self.receiver = OtlpReceiver(given, Buffer(self.store), names=built_in_names())
        self._scheme = "https" if given.tls.cert_file else "http"

    @property
    def http(self) -> str:
        assert self.receiver.http is not None
        return f"{self._scheme}://{self.receiver.http.address}"

    @property
    def grpc(self) -> str:
        assert self.receiver.grpc is not None
        return f"{self._scheme}://{self.receiver.grpc.address}"

    def latest(self, kind: Any, key: str) -> dict[str, float]:  # noqa: ANN401 - a Literal
        """The newest value of a metric by entity."""
        now_s = SystemClock().now_s()
        with self.store.reading():
            rows = self.store.block(kind, key, now_s - 300.0, now_s + 30.0).array()
            names = {slot: entity.id for slot, entity in self.store.slots(kind)}
        found: dict[str, float] = {}
        for row in rows.tolist():
            found |= {names[i]: v for i, v in enumerate(row) if v == v and i in names}  # noqa: PLR0124 - NaN
        return found


@contextmanager
def gateway(**settings: Any) -> Iterator[Gateway]:  # noqa: ANN401 - passed on
    one = Gateway(**settings)
    one.receiver.start()
    try:
        yield one
    finally:
        one.receiver.close()


class Forwarder(Collector):
    """A Collector that sends on what it gets, by the exporter that is given."""

    def __init__(self, workdir: Path, exporter: str, options: Mapping[str, object]) -> None:
        self._forward = exporter, dict(options)
        super().__init__(workdir)

    def _config(self, tls: ServerTls | None, token: str | None) -> Json:
        config = super()._config(tls, token)
        name, options = self._forward
        config["exporters"][name] = options
        config["service"]["pipelines"]["metrics"]["exporters"].append(name)
        return config


StartForwarder = Callable[..., Forwarder]


@pytest.fixture
def forwarder(tmp_path: Path, running: ExitStack) -> StartForwarder:
    """`forwarder(exporter, options)` gives a Collector."""
    return factory(Forwarder, "collector", tmp_path, running)


def round_now(gpus: int) -> list[Observation]:
    """What an agent knows at this moment."""
    end_s = SystemClock().now_s()
    window = Window(end_s - 10.0, end_s)
    return [Observation(gpu(n), window, values(n + 1)) for n in range(gpus)]


@contextmanager
def training_job(exporter: MetricExporter, job: str) -> Iterator[Any]:
    """A process that reports by OpenTelemetry's SDK; what it said is sent at the end."""
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    provider = MeterProvider([reader], Resource({"slurm.job.id": job}), shutdown_on_exit=False)
    try:
        yield provider.get_meter("megatron")
        provider.force_flush()
    finally:
        provider.shutdown()


def exporter_for(one: Gateway, protocol: str, **options: Any) -> MetricExporter:  # noqa: ANN401 - passed on
    if protocol == "grpc":
        return GrpcExporter(endpoint=one.grpc, **options)
    return HttpExporter(endpoint=f"{one.http}/v1/metrics", compression=Compression.Gzip, **options)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_sdk_reports_the_speed_of_a_job(protocol: str) -> None:
    with gateway() as one:
        with training_job(exporter_for(one, protocol), "4711") as meter:
            meter.create_gauge("megatron.training.throughput_tflops").set(412.5, {"dl.rank": 0})
            meter.create_gauge("megatron.training.tokens_per_sec").set(90_000)
            meter.create_histogram("megatron.training.step_duration").record(5.0)
        one.receiver.close()
        assert one.latest("job", "model_flop_rate") == {"4711": pytest.approx(4.125e14)}
        assert one.latest("job", "tokens_per_s") == {"4711": 90_000.0}
        assert one.receiver.counts.reasons == {
            "points of this form are not supported: histogram": one.receiver.counts.points[
                "rejected"
            ]
        }


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_the_sdk_comes_back_when_it_was_told_to(protocol: str) -> None:
    """The queue is full until the client was turned away once."""
    one = Gateway(max_pending_requests=1)
    work = one.receiver._worker
    filler = DecodeTask(b"", "protobuf", gzipped=False, limit=1, reply=lambda _: None)
    assert work.offer(filler)
    for server in (one.receiver.http, one.receiver.grpc):
        assert server is not None
        server.start()

    def relieve() -> None:
        wait_until(lambda: work.counts.get("busy"), "a client that is turned away")
        work.start()

    with closing(one.receiver), ThreadPoolExecutor(1) as pool:
        relieved = pool.submit(relieve)
        with training_job(exporter_for(one, protocol), "4711") as meter:
            meter.create_gauge("ml.training.mfu").set(0.5)
        relieved.result()
        one.receiver.close()
        assert one.latest("job", "mfu_reported") == {"4711": 0.5}


def test_the_sdk_over_tls_with_a_token(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)  # they would win over the exporter's own CA
    server, client = certificates.server, certificates.client
    secret = tmp_path / "token"
    secret.write_text("secret")
    tls = ReceiverTls(
        cert_file=str(server.cert), key_file=str(server.key), client_ca_file=str(certificates.ca)
    )
    with gateway(tls=tls, bearer_token_file=str(secret)) as one:
        http = exporter_for(
            one,
            "http",
            certificate_file=str(certificates.ca),
            client_certificate_file=str(client.cert),
            client_key_file=str(client.key),
            headers={"authorization": "Bearer secret"},
        )
        with training_job(http, "4711") as meter:
            meter.create_gauge("ml.training.mfu").set(0.5)
        credentials = ssl_channel_credentials(
            certificates.ca.read_bytes(), client.key.read_bytes(), client.cert.read_bytes()
        )
        headers = (("authorization", "Bearer secret"),)
        grpc = exporter_for(one, "grpc", credentials=credentials, headers=headers)
        with training_job(grpc, "4712") as meter:
            meter.create_gauge("ml.training.mfu").set(0.25)
        one.receiver.close()
        assert one.latest("job", "mfu_reported") == {"4711": 0.5, "4712": 0.25}


@pytest.mark.peer
@pytest.mark.parametrize("exporter", ["otlp", "otlphttp", "otlphttp json"])
def test_what_goes_through_a_collector_arrives_as_it_was_sent(
    forwarder: StartForwarder, exporter: str
) -> None:
    with gateway() as one:
        name, _, encoding = exporter.partition(" ")
        options: Json = {"endpoint": one.grpc if name == "otlp" else one.http}
        options["tls"] = {"insecure": True}
        if encoding:
            options["encoding"] = encoding
        peer = forwarder(name, options)
        sent = round_now(8)
        post(peer, ticks([sent])[0])
        wait_until(lambda: len(one.latest("gpu", "ofu")) == 8, "8 GPUs")
        entities = {e.id: e for e in one.store.entities("gpu")}
        assert entities == {o.entity.id: o.entity for o in sent}
        for key in values():
            if load_registry().metric(key).kind == "counter":
                continue  # the store keeps what they gain, and this is the first of them
            expected = {o.entity.id: pytest.approx(o.values[key]) for o in sent}
            assert one.latest("gpu", key) == expected, key
        assert one.receiver.counts.points["rejected"] == 0


@pytest.mark.peer
def test_a_collector_keeps_what_we_had_no_time_for(forwarder: StartForwarder) -> None:
    one = Gateway(max_pending_requests=1)
    work = one.receiver._worker
    assert work.offer(DecodeTask(b"", "protobuf", gzipped=False, limit=1, reply=lambda _: None))
    assert one.receiver.http is not None
    one.receiver.http.start()
    with closing(one.receiver):
        retry = {"enabled": True, "initial_interval": "50ms", "max_interval": "100ms"}
        options = {"endpoint": one.http, "retry_on_failure": retry}
        post(forwarder("otlphttp", options), ticks([round_now(2)])[0])
        wait_until(lambda: work.counts.get("busy"), "a Collector that is turned away")
        work.start()
        wait_until(lambda: len(one.latest("gpu", "ofu")) == 2, "2 GPUs")


@pytest.mark.peer
def test_a_training_job_behind_a_collector(forwarder: StartForwarder) -> None:
    with gateway() as one:
        peer = forwarder("otlp", {"endpoint": one.grpc, "tls": {"insecure": True}})
        exporter = HttpExporter(endpoint=f"{peer.http_endpoint}/v1/metrics")
        with training_job(exporter, "4711") as meter:
            meter.create_gauge("ml.training.mfu").set(0.5)
        wait_until(lambda: one.latest("job", "mfu_reported") == {"4711": 0.5}, "the job's MFU")


def post(peer: Collector, raw: bytes) -> None:
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    with closing(HTTPConnection(HOST, peer.http_port, timeout=HANGS_S)) as connection:
        connection.request("POST", "/v1/metrics", gzip.compress(raw), headers)
        assert connection.getresponse().status == 200
