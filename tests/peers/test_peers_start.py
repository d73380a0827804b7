"""The peers themselves: they start, answer, restart, stop and leave nothing behind."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.peers.certs import Certificates, Identity
from tests.peers.child import HOST, PeerError, call
from tests.peers.peer import Peer, run_tool
from tests.peers.processes import Alertmanager, Collector, Prometheus, ServerTls
from tests.waiting import HANGS_S, wait_until

pytestmark = pytest.mark.peer

METRICS = {
    "resourceMetrics": [
        {
            "resource": {"attributes": [{"key": "hw.id", "value": {"stringValue": "GPU-1"}}]},
            "scopeMetrics": [
                {
                    "metrics": [
                        {
                            "name": "ofu.gpu.utilization",
                            "unit": "1",
                            "gauge": {"dataPoints": [{"timeUnixNano": "1", "asDouble": 0.4375}]},
                        }
                    ]
                }
            ],
        }
    ]
}
LOGS = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"eventName": "ofu.finding.opened"}]}]}]}


def post(
    collector: Collector,
    body: object = METRICS,
    path: str = "/v1/metrics",
    tls: ssl.SSLContext | None = None,
    token: str | None = None,
) -> int:
    """POST OTLP as JSON; the HTTP status."""
    connection = (
        http.client.HTTPSConnection(HOST, collector.http_port, timeout=HANGS_S, context=tls)
        if tls
        else http.client.HTTPConnection(HOST, collector.http_port, timeout=HANGS_S)
    )
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    with closing(connection):
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        response.read()
        return response.status


def client_tls(certificates: Certificates, identity: Identity | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.ca)
    if identity:
        context.load_cert_chain(identity.cert, identity.key)
    return context


def has_stopped(pid: int) -> bool:
    """Whether there is no such process; one that nobody has reaped yet counts as stopped."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("name", ["collector", "prometheus", "alertmanager"])
def test_stop_leaves_no_process_and_a_free_port(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    peer: Peer = request.getfixturevalue(name)()
    pid = peer.pid
    assert not has_stopped(pid)
    peer.stop()
    assert has_stopped(pid)
    peer.start()
    assert peer.pid != pid


def test_a_peer_dies_with_the_process_that_started_it(
    collector: Callable[..., Collector], tmp_path: Path
) -> None:
    script = (
        "import os, sys, pathlib\n"
        "from tests.peers.processes import Collector\n"
        "peer = Collector(pathlib.Path(sys.argv[1])).start()\n"
        "print(peer.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "orphan")],
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert ran.returncode == -9, ran.stderr
    wait_until(lambda: has_stopped(int(ran.stdout)), "the orphan to end")


def test_a_failed_start_shows_what_the_peer_said(
    prometheus: Callable[..., Prometheus],
) -> None:
    with pytest.raises(PeerError, match="unknown long flag '--no-such-flag'"):
        prometheus(flags=["--no-such-flag"])


def test_a_crash_is_told_at_the_stop(collector: Callable[..., Collector]) -> None:
    peer = collector()
    os.kill(peer.pid, 9)
    os.waitid(os.P_PID, peer.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(PeerError, match="ended by itself with status -9"):
        peer.stop()


def test_the_collector_keeps_what_it_receives(collector: Callable[..., Collector]) -> None:
    peer = collector()
    assert post(peer) == 200
    assert post(peer, LOGS, "/v1/logs") == 200
    wait_until(lambda: len(peer.requests()) == 2, "both requests")
    requests = peer.requests()
    point = requests[0]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]["gauge"]
    assert point["dataPoints"][0]["asDouble"] == 0.4375
    assert peer.logs() == requests[1:]
    peer.restart()
    assert peer.requests() == requests


def test_the_collector_takes_grpc(collector: Callable[..., Collector]) -> None:
    peer = collector()
    method = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    request = ParseDict(METRICS, ExportMetricsServiceRequest()).SerializeToString()
    with grpc.insecure_channel(f"{HOST}:{peer.grpc_port}") as channel:
        channel.unary_unary(method)(request, timeout=HANGS_S)
    assert post(peer) == 200
    wait_until(lambda: len(peer.metrics()) == 2, "both requests")
    by_grpc, by_http = peer.metrics()
    assert by_grpc == by_http


def test_the_collector_is_gone_while_it_is_stopped(collector: Callable[..., Collector]) -> None:
    peer = collector()
    peer.stop()
    with pytest.raises(ConnectionRefusedError):
        post(peer)
    peer.start()
    assert post(peer) == 200


def test_the_collector_lets_in_only_clients_of_its_ca(
    collector: Callable[..., Collector], certificates: Certificates
) -> None:
    peer = collector(tls=ServerTls(certificates.server, client_ca=certificates.ca))
    assert peer.http_endpoint.startswith("https://")
    assert post(peer, tls=client_tls(certificates, certificates.client)) == 200
    for identity in (None, certificates.expired, certificates.stranger):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            post(peer, tls=client_tls(certificates, identity))


@pytest.mark.parametrize("which", ["expired", "stranger"])
def test_a_server_with_a_bad_certificate_is_refused(
    which: str, collector: Callable[..., Collector], certificates: Certificates
) -> None:
    peer = collector(tls=ServerTls(getattr(certificates, which)))
    with pytest.raises(ssl.SSLCertVerificationError):
        post(peer, tls=client_tls(certificates))


def test_the_collector_asks_for_its_token(collector: Callable[..., Collector]) -> None:
    peer = collector(token="open-sesame")
    assert [post(peer), post(peer, token="wrong"), post(peer, token="open-sesame")] == [
        401,
        401,
        200,
    ]


def test_prometheus_answers_about_loaded_samples(
    prometheus: Callable[..., Prometheus], tmp_path: Path
) -> None:
    samples = tmp_path / "samples.txt"
    samples.write_text(
        "# TYPE ofu gauge\n"
        'ofu{hw_id="GPU-1"} 0.25 1700000000\n'
        'ofu{hw_id="GPU-1"} 0.75 1700000010\n'
        "# EOF\n"
    )
    peer = prometheus(start=False)
    peer.load_openmetrics(samples)
    peer.start()
    (series,) = peer.query("avg_over_time(ofu[20s])", time=1_700_000_010)
    assert series["value"] == [1_700_000_010, "0.5"]
    (series,) = peer.query_range("ofu", 1_700_000_000, 1_700_000_010, 10)
    assert [value for _, value in series["values"]] == ["0.25", "0.75"]
    with pytest.raises(PeerError, match="parse error"):
        peer.query("avg(")


def test_prometheus_takes_otlp(prometheus: Callable[..., Prometheus]) -> None:
    peer = prometheus(flags=["--web.enable-otlp-receiver"])
    now = {"timeUnixNano": str(time.time_ns()), "asDouble": 0.4375}
    metric = {"name": "ofu.gpu.utilization", "unit": "1", "gauge": {"dataPoints": [now]}}
    body = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}
    status, _ = call(peer.port, "/api/v1/otlp/v1/metrics", body=body)
    assert status == 200
    (series,) = wait_until(lambda: peer.query("ofu_gpu_utilization_ratio"), "the sample")
    assert series["value"][1] == "0.4375"


def test_prometheus_scrapes_itself(prometheus: Callable[..., Prometheus]) -> None:
    peer = prometheus(start=False)
    peer.write_config(
        {
            "scrape_configs": [
                {
                    "job_name": "self",
                    "scrape_interval": "100ms",
                    "scrape_timeout": "100ms",
                    "static_configs": [{"targets": [f"{HOST}:{peer.port}"]}],
                }
            ]
        }
    )
    peer.start()
    wait_until(lambda: peer.query("up == 1"), "the first scrape")


def test_alertmanager_holds_and_groups_alerts(
    alertmanager: Callable[..., Alertmanager],
) -> None:
    peer = alertmanager()
    peer.post({"labels": {"alertname": "LowOfu", "hw_id": "GPU-1"}})
    (alert,) = wait_until(peer.alerts, "the alert")
    assert alert["labels"] == {"alertname": "LowOfu", "hw_id": "GPU-1"}
    (group,) = wait_until(peer.groups, "its group")
    assert group["receiver"] == {"name": "nobody"}
    with pytest.raises(PeerError, match="400"):
        peer.post({"labels": {}})


def test_the_tools_check_what_the_servers_read(
    promtool: Path, amtool: Path, alertmanager: Callable[..., Alertmanager], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    content: dict[str, Any] = {
        "groups": [{"name": "g", "rules": [{"alert": "A", "expr": "up =="}]}]
    }
    rules.write_text(json.dumps(content))
    with pytest.raises(PeerError, match="parse error"):
        run_tool("promtool", "check", "rules", str(rules))
    peer = alertmanager(start=False)
    assert "SUCCESS" in run_tool("amtool", "check-config", str(peer.config_file))
