"""OTLP in, decoded into the store: points per second of one core, and what a Collector takes.

`run()` decodes bodies as our own agents send them, then sends the same bodies over loopback to our
receiver and, where it is built, to a real Collector's, each in a process of its own; the rates are
per CPU second of that process. `python bench/receiver.py` prints the table.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection
from pathlib import Path
from subprocess import PIPE, Popen

import grpc
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from otel_ofu.catalog.registry import Metric, load_registry
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.model import Attribute, Entity, Observation, Window
from otel_ofu.model.clock import SystemClock
from otel_ofu.receive import ListenerSettings, OtlpReceiver, OtlpReceiverSettings
from otel_ofu.receive.buffer import Buffer
from otel_ofu.receive.decode import Decoder
from otel_ofu.store import Store

EXPORT = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
STEP_S = 10.0
TICKS = 10
REPEATS = 3


@dataclass(frozen=True)
class Shape:
    """Requests of one size: so many senders with so many GPUs and metrics."""

    senders: int
    gpus: int
    metrics: int

    @property
    def points(self) -> int:
        return self.gpus * self.metrics

    @cached_property
    def bodies(self) -> list[bytes]:
        """Those of the first tick from all senders, then of the next."""
        end_s = STEP_S * (SystemClock().now_s() // STEP_S)
        times = [end_s - STEP_S * (TICKS - n) for n in range(TICKS)]
        return [body for at in zip(*self._rounds(times), strict=True) for body in at]

    def _rounds(self, times: Sequence[float]) -> Iterator[list[bytes]]:
        for sender in range(self.senders):
            encoder = MetricEncoder(
                load_registry(),
                {"service.name": "otel-ofu", "service.version": "1", "host.name": f"n{sender:04}"},
                EncoderOptions(times[0]),
            )
            gpus = [entity(sender, number) for number in range(self.gpus)]
            yield [
                body.raw()
                for tick, at in enumerate(times)
                for body in encoder.encode([self._seen(gpu, tick, at) for gpu in gpus])
            ]

    def _seen(self, gpu: Entity, tick: int, at_s: float) -> Observation:
        values = {key: value(metric, tick) for key, metric in self._keys}
        return Observation(gpu, Window(at_s - STEP_S, at_s), values)

    @cached_property
    def _keys(self) -> list[tuple[str, Metric]]:
        every = load_registry().metrics.items()
        return [(k, m) for k, m in every if m.entity == "gpu" and not m.labels][: self.metrics]


NODE = Shape(senders=125, gpus=8, metrics=20)
RACK = Shape(senders=16, gpus=125, metrics=40)
SHAPES = (NODE, RACK)


def entity(sender: int, number: int) -> Entity:
    uuid = f"GPU-{sender:04x}{number:04x}-0000-4000-8000-000000000000"
    attributes: dict[str, Attribute] = {
        "host.name": f"n{sender:04}",
        "hw.id": uuid,
        "hw.model": "NVIDIA H100 80GB HBM3",
        "hw.vendor": "nvidia",
        "ofu.gpu.sku": "h100-sxm5",
        "ofu.gpu.index": number,
        "ofu.precision": "bf16",
        "ofu.precision.source": "declared",
        "ofu.reference_clock": 1.83e9,
        "ofu.job.id": f"job-{sender // 8:05}",
        "ofu.job.source": "slurm",
    }
    return Entity("gpu", f"{uuid}/job-{sender // 8:05}", attributes)


def value(metric: Metric, tick: int) -> float:
    """Possible for the metric, and another one each tick."""
    low, high = metric.range
    if high is None:
        return (low or 0.0) + 1e6 + tick
    return (low or 0.0) + (high - (low or 0.0)) * (0.3 + 0.01 * tick)


def cpu_s(work: Callable[[], object]) -> float:
    """CPU seconds of the best of a few runs."""
    best_s = float("inf")
    for _ in range(REPEATS):
        began_s = time.process_time()
        work()
        best_s = min(best_s, time.process_time() - began_s)
    return best_s


def run() -> dict[str, float | str]:
    table: dict[str, float | str] = {}
    for shape in SHAPES:
        table |= {f"{shape.points} points: {k}": v for k, v in _in_process(shape).items()}
    for shape in SHAPES:
        table |= {f"{shape.points} points: {k}": v for k, v in _served(shape).items()}
    return table


def _in_process(shape: Shape) -> dict[str, float | str]:
    """Rates in millions of points a CPU second."""
    now_s = SystemClock().now_s()
    first = shape.bodies[: shape.senders]
    json = [MessageToJson(ExportMetricsServiceRequest.FromString(b)).encode() for b in first[:16]]
    warm = Decoder(load_registry())
    decode(warm, first, now_s)

    def rate(bodies: Sequence[bytes], work: Callable[[], object]) -> float:
        return round(shape.points * len(bodies) / cpu_s(work) / 1e6, 3)

    return {
        "protobuf alone, nothing read, M points/s": rate(
            shape.bodies,
            lambda: deque(map(ExportMetricsServiceRequest.FromString, shape.bodies), 0),
        ),
        "seen for the first time, M points/s": rate(
            first, lambda: decode(Decoder(load_registry()), first, now_s)
        ),
        "known layout, M points/s": rate(shape.bodies, lambda: decode(warm, shape.bodies, now_s)),
        "known layout, into the store, M points/s": rate(
            shape.bodies, lambda: store(warm, shape, now_s)
        ),
        "JSON, M points/s": rate(json, lambda: decode_json(json, now_s)),
        "bytes a point": round(len(first[0]) / shape.points, 1),
    }


def decode(decoder: Decoder, bodies: Sequence[bytes], now_s: float) -> None:
    for body in bodies:
        taken = decoder.decode(body, now_s)
        assert not taken.rejected.points, str(taken.rejected)


def decode_json(bodies: Sequence[bytes], now_s: float) -> None:
    decoder = Decoder(load_registry())
    for body in bodies:
        decoder.decode_json(body, now_s)


def store(decoder: Decoder, shape: Shape, now_s: float) -> None:
    """As under load: what came in a fifth of a second is written in one go."""
    buffer = Buffer(Store(load_registry(), step_s=STEP_S))
    for number, body in enumerate(shape.bodies):
        buffer.add(decoder.decode(body, now_s), now_s)
        if number % shape.senders == 0:
            buffer.flush(now_s)
    buffer.flush(now_s)


def _served(shape: Shape) -> dict[str, float | str]:
    table: dict[str, float | str] = {}
    for name, started in (("receiver", _ours), ("Collector", _collector)):
        for protocol in ("http", "grpc"):
            what = f"{name} over {protocol}, M points/s of its CPU"
            with started() as server:
                if server is None:
                    table[what] = "not built (make peers)"
                else:
                    table[what] = round(_rate(shape, protocol, server) / 1e6, 3)
    return table


@dataclass(frozen=True)
class Server:
    pid: int
    http: int
    grpc: int


def _rate(shape: Shape, protocol: str, server: Server) -> float:
    send = _send_http if protocol == "http" else _send_grpc
    send(server, shape.bodies[: shape.senders])  # connections, caches, code
    before_s = _process_cpu_s(server.pid)
    send(server, shape.bodies)
    time.sleep(0.5)  # what it does after its last answer
    used_s = _process_cpu_s(server.pid) - before_s
    return shape.points * len(shape.bodies) / used_s


def _send_http(server: Server, bodies: Sequence[bytes]) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    with closing(HTTPConnection("127.0.0.1", server.http)) as connection:
        for body in bodies:
            connection.request("POST", "/v1/metrics", body, headers)
            response = connection.getresponse()
            response.read()
            assert response.status == 200, response.status


def _send_grpc(server: Server, bodies: Sequence[bytes]) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        export = channel.unary_unary(EXPORT)
        for body in bodies:
            export(body)


def _process_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _ours() -> Iterator[Server | None]:
    with Popen([sys.executable, __file__, "--serve"], stdout=PIPE, stdin=PIPE, text=True) as child:
        assert child.stdout is not None
        http, grpc_port = map(int, child.stdout.readline().split())
        try:
            yield Server(child.pid, http, grpc_port)
        finally:
            child.terminate()


@contextmanager
def _collector() -> Iterator[Server | None]:
    """The debug exporter does next to nothing: a line a batch."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.peers.build import where  # noqa: PLC0415 - the path is needed first
    from tests.peers.processes import Collector  # noqa: PLC0415 - as above

    class Bare(Collector):
        def _config(self, tls: object, token: object) -> dict[str, object]:
            config = super()._config(None, None)
            del tls, token
            config["service"]["pipelines"] = {
                "metrics": {"receivers": ["otlp"], "exporters": ["debug"]}
            }
            config["exporters"] = {"debug": {"verbosity": "basic"}}
            return config

    if where("collector") is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="ofu-bench-") as folder, Bare(Path(folder)) as peer:
        yield Server(_first_child(peer.pid), peer.http_port, peer.grpc_port)


def _first_child(pid: int) -> int:
    """The Collector runs behind a tether that ends with us; it may have become it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else pid


def _serve() -> None:
    free = ListenerSettings(endpoint="127.0.0.1:0")
    store = Store(load_registry(), step_s=STEP_S)
    receiver = OtlpReceiver(OtlpReceiverSettings(http=free, grpc=free), Buffer(store))
    receiver.start()
    assert receiver.http is not None
    assert receiver.grpc is not None
    print(receiver.http.port, receiver.grpc.address.port, flush=True)
    sys.stdin.read()
    receiver.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--serve", action="store_true", help="a receiver, until stdin ends")
    if parser.parse_args().serve:
        _serve()
        return
    for what, figure in run().items():
        print(f"{what}: {figure}")


if __name__ == "__main__":
    main()
