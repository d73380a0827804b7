"""The real peers as objects: a Collector, a Prometheus, an Alertmanager, each on free ports.

In: a working folder and what the peer shall do. Out: a process on loopback with the questions that
tests ask of it. `start`, `stop`, `restart` and `kill` are those of `Child`; ports and files stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.peers.certs import Identity
from tests.peers.child import HOST, Child, PeerError, answers_ok, call, call_json, free_ports
from tests.peers.peer import Peer, binary, run_tool

Json = dict[str, Any]


@dataclass(frozen=True)
class ServerTls:
    """How a peer's receivers prove themselves, and whose clients they let in (None: anyone)."""

    identity: Identity
    client_ca: Path | None = None


class Collector(Peer):
    """An OpenTelemetry Collector that takes OTLP over gRPC and HTTP and keeps it as JSON lines.

    `tls` and `token` (a bearer token that callers must show) hold for both receivers. What it
    received survives a restart.
    """

    SIGNALS = ("metrics", "logs", "traces")

    def __init__(
        self, workdir: Path, *, tls: ServerTls | None = None, token: str | None = None
    ) -> None:
        super().__init__(workdir, "collector.yaml")
        self.grpc_port, self.http_port, self.health_port = free_ports(3)
        self._scheme = "https" if tls else "http"
        self.write_config(self._config(tls, token))
        command = [str(binary("collector")), "--config", f"file:{self.config_file}"]
        ready = partial(answers_ok, self.health_port, "/")
        self.child = Child(command, workdir / "collector.log", ready)

    @property
    def grpc_endpoint(self) -> str:
        """As `OTEL_EXPORTER_OTLP_ENDPOINT` wants it for gRPC."""
        return f"{self._scheme}://{HOST}:{self.grpc_port}"

    @property
    def http_endpoint(self) -> str:
        """As `OTEL_EXPORTER_OTLP_ENDPOINT` wants it for HTTP: without `/v1/metrics`."""
        return f"{self._scheme}://{HOST}:{self.http_port}"

    def metrics(self) -> list[Json]:
        """Each ExportMetricsServiceRequest received so far, in OTLP's JSON encoding."""
        return self._received("metrics")

    def logs(self) -> list[Json]:
        """Each ExportLogsServiceRequest received so far."""
        return self._received("logs")

    def traces(self) -> list[Json]:
        """Each ExportTraceServiceRequest received so far."""
        return self._received("traces")

    def requests(self) -> list[Json]:
        """All of them: metrics, then logs, then traces, each in the order received."""
        return [request for signal in self.SIGNALS for request in self._received(signal)]

    def _received(self, signal: str) -> list[Json]:
        path = self.workdir / f"{signal}.jsonl"
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")[:-1]  # the last is empty or still being written
        return [json.loads(line) for line in lines]

    def _config(self, tls: ServerTls | None, token: str | None) -> Json:
        files = {
            f"file/{signal}": {
                "path": str(self.workdir / f"{signal}.jsonl"),
                "append": True,
                "flush_interval": "20ms",
            }
            for signal in self.SIGNALS
        }
        pipelines = {
            signal: {"receivers": ["otlp"], "exporters": ["debug", f"file/{signal}"]}
            for signal in self.SIGNALS
        }
        extensions: Json = {"health_check": {"endpoint": f"{HOST}:{self.health_port}"}}
        if token:
            extensions["bearertokenauth"] = {"token": token}
        return {
            "extensions": extensions,
            "receivers": {"otlp": {"protocols": self._protocols(tls, token)}},
            "exporters": {"debug": {}, **files},
            "service": {
                "extensions": list(extensions),
                "pipelines": pipelines,
                "telemetry": {"metrics": {"level": "none"}},  # it would open a port of its own
            },
        }

    def _protocols(self, tls: ServerTls | None, token: str | None) -> Json:
        shared: Json = {}
        if tls:
            shared["tls"] = {
                "cert_file": str(tls.identity.cert),
                "key_file": str(tls.identity.key),
                **({"client_ca_file": str(tls.client_ca)} if tls.client_ca else {}),
            }
        if token:
            shared["auth"] = {"authenticator": "bearertokenauth"}
        ports = {"grpc": self.grpc_port, "http": self.http_port}
        return {name: {"endpoint": f"{HOST}:{port}", **shared} for name, port in ports.items()}


class Prometheus(Peer):
    """A Prometheus server.

    `scrape` maps a job to its targets (`host:port`), `rules` are rule files, `alertmanagers` are
    `host:port`; what `config` holds is laid over the rest, key by key at the top. `flags` are those
    of the command line, such as `--web.enable-otlp-receiver`.
    """

    def __init__(
        self,
        workdir: Path,
        *,
        scrape: Mapping[str, Sequence[str]] | None = None,
        rules: Sequence[Path] = (),
        alertmanagers: Sequence[str] = (),
        config: Mapping[str, object] | None = None,
        flags: Sequence[str] = (),
        interval: str = "1s",
    ) -> None:
        super().__init__(workdir, "prometheus.yaml")
        (self.port,) = free_ports(1)
        self.data = workdir / "data"
        self.write_config(
            {
                "global": {"scrape_interval": interval, "evaluation_interval": interval},
                "rule_files": [str(path) for path in rules],
                "scrape_configs": [
                    {"job_name": job, "static_configs": [{"targets": list(targets)}]}
                    for job, targets in (scrape or {}).items()
                ],
                "alerting": {
                    "alertmanagers": [{"static_configs": [{"targets": list(alertmanagers)}]}]
                },
                **(config or {}),
            }
        )
        command = [str(binary("prometheus")), *self._flags(), *flags]
        ready = partial(answers_ok, self.port, "/-/ready")
        self.child = Child(command, workdir / "prometheus.log", ready)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def load_openmetrics(self, path: Path) -> None:
        """Fill the database with the samples of an OpenMetrics file; only while stopped."""
        blocks = ("tsdb", "create-blocks-from", "openmetrics", "--quiet")
        run_tool("promtool", *blocks, str(path), str(self.data))

    def query(self, expr: str, time: float | None = None) -> list[Json]:
        """Evaluate PromQL at one instant (Unix seconds; now): each series of the result.

        A scalar or string comes as the one pair that the API gives. PeerError for a bad query.
        """
        at = {} if time is None else {"time": repr(time)}
        result: list[Json] = self.get("query", query=expr, **at)["result"]
        return result

    def query_range(self, expr: str, start: float, end: float, step_s: float) -> list[Json]:
        """Evaluate PromQL from start to end (Unix seconds, both included)."""
        steps = {"start": repr(start), "end": repr(end), "step": repr(step_s)}
        result: list[Json] = self.get("query_range", query=expr, **steps)["result"]
        return result

    def get(self, path: str, **query: str) -> Any:  # noqa: ANN401 (JSON)
        """`data` of the answer to GET /api/v1/PATH, such as `rules` or `targets`."""
        return call_json(self.port, f"/api/v1/{path}", query=query)["data"]

    def _flags(self) -> list[str]:
        return [
            f"--config.file={self.config_file}",
            f"--storage.tsdb.path={self.data}",
            "--storage.tsdb.retention.time=100y",  # loaded samples may be of any age
            "--scrape.discovery-reload-interval=100ms",  # 5 s until the first scrape otherwise
            f"--web.listen-address={HOST}:{self.port}",
        ]


class Alertmanager(Peer):
    """An Alertmanager. Without a config it groups by all labels, at once, and notifies nobody."""

    SILENT: Mapping[str, object] = {
        "route": {"receiver": "nobody", "group_by": ["..."], "group_wait": "0s"},
        "receivers": [{"name": "nobody"}],
    }

    def __init__(
        self,
        workdir: Path,
        config: Mapping[str, object] | None = None,
        *,
        flags: Sequence[str] = (),
    ) -> None:
        super().__init__(workdir, "alertmanager.yaml")
        (self.port,) = free_ports(1)
        self.write_config(config or self.SILENT)
        command = [
            str(binary("alertmanager")),
            f"--config.file={self.config_file}",
            f"--storage.path={workdir / 'data'}",
            f"--web.listen-address={HOST}:{self.port}",
            "--cluster.listen-address=",  # alone: no gossip port
            *flags,
        ]
        ready = partial(answers_ok, self.port, "/-/ready")
        self.child = Child(command, workdir / "alertmanager.log", ready)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def flushes(self) -> int:
        """How often a group asked what it had notified: the second time it has written the first
        notification down."""
        _, page = call(self.port, "/metrics")
        found = re.search(rb"^alertmanager_nflog_queries_total (\d+)", page, re.MULTILINE)
        return int(found[1]) if found else 0

    def alerts(self) -> list[Json]:
        """Alerts that it holds, resolved ones excluded."""
        alerts: list[Json] = call_json(self.port, "/api/v2/alerts")
        return alerts

    def groups(self) -> list[Json]:
        """Its groups, each with its labels, receiver and alerts."""
        groups: list[Json] = call_json(self.port, "/api/v2/alerts/groups")
        return groups

    def post(self, *alerts: Mapping[str, object]) -> None:
        """Send it alerts as Prometheus does; PeerError when it refuses them."""
        status, answer = call(self.port, "/api/v2/alerts", body=alerts)
        if status != 200:
            raise PeerError(f"{status}: {answer.decode(errors='replace').strip()}")
