"""An agent on virtual time, and the story that a kept state_dir was left behind by.

`python -m tests.app.state_story FILE` lives the story and packs `state/`, the state_dir of the
agent, and `sent.json`, what it had notified until then. Do that once for a revision whose state
has to be taken over later, with the code of that revision; never write one anew.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_ofu.app.pipeline import Pipeline
from otel_ofu.app.prepare import prepare
from otel_ofu.app.telemetry import Dependencies, Telemetry
from otel_ofu.config import ReadConfig, config_from_text
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.clock import VirtualClock
from tests.export.servers import HttpServer, Reply, http_server
from tests.waiting import HANGS_S, wait_until

START_S = 1_793_620_800.0  # 2026-11-02 12:00 UTC
STEP_S = 10.0
NOTIFIED, UNSENT, PENDING, WELL = "GPU-a", "GPU-b", "GPU-c", "GPU-d"
JOBS = {NOTIFIED: "7", UNSENT: "8", PENDING: "9", WELL: "10"}
FELL_AT_MIN = {NOTIFIED: 35, UNSENT: 37, PENDING: 42}
OUTAGE_AT_MIN, END_AT_MIN = 43, 46

RULES = """\
groups:
  - name: state
    interval: 30s
    rules:
      - alert: LowOfu
        each: gpu
        expr: avg(ofu, 2m) < 20%
        for: 5m
        labels: {severity: warning}
        annotations: {summary: "{{ $labels.hw_id }}: OFU is {{ $value | percent }}"}
"""
CONFIG = """\
rules: {{paths: ["{rules}"]}}
exporters:
  otlp_http: {{endpoint: "{otlp}"}}
  console: {{mode: "off"}}
route:
  alertmanager: {{servers: ["{alertmanager}"]}}
  receivers: [{{name: ops, webhook_configs: [{{url: "{webhook}"}}]}}]
  receiver: ops
  group_interval: 1m
"""

Ofu = Callable[[str, float], float]
"""What a GPU has at an instant."""


@dataclass(frozen=True, slots=True)
class Servers:
    """Who is sent something, on loopback."""

    otlp: HttpServer
    webhook: HttpServer
    alertmanager: HttpServer

    def outage(self) -> None:
        """The backend of telemetry and the webhook take nothing more; Alertmanager does."""
        for server in (self.otlp, self.webhook):
            server.replies = [Reply(503)] * 100_000

    def sent(self, name: str) -> list[Any]:
        """The JSON that one of them got, oldest first."""
        return [json.loads(got.raw) for got in getattr(self, name).got]


@contextmanager
def servers() -> Iterator[Servers]:
    with http_server() as otlp, http_server() as webhook, http_server() as alertmanager:
        yield Servers(otlp, webhook, alertmanager)


class Agent:
    """The agent's rules, exporters and routes over `state`, from the instant `now_s` on."""

    def __init__(self, folder: Path, to: Servers, now_s: float, rules: str = RULES) -> None:
        path = folder / "rules.yaml"
        path.write_text(rules)
        urls = {name: getattr(to, name).url for name in ("otlp", "webhook", "alertmanager")}
        self.clock = VirtualClock(now_s)
        config = config_from_text(CONFIG.format(rules=path, **urls))
        prepared = prepare(ReadConfig(config), {})
        shared = Dependencies(prepared, self.clock, folder / "state", "node-1")
        self._telemetry = Telemetry(shared, [], threading.Event())
        self._pipeline = Pipeline(shared, self._telemetry, lambda _text: None)
        self._pipeline.start()

    def live(self, end_s: float, ofu: Ofu) -> None:
        """Rounds up to and with `end_s`."""
        while self.clock.now_s() < end_s:
            self.clock.advance(STEP_S)
            now_s = self.clock.now_s()
            self._pipeline.take(round_of(now_s, ofu))
            self._pipeline.judge(now_s)
            self._pipeline.routing.tick(now_s)

    def settle(self) -> None:
        """Returns when everything was sent."""
        queues = self._telemetry.outbox.queues.values()
        wait_until(lambda: not any(len(queue) for queue in queues), "all that is to be sent")

    def close(self) -> None:
        self._pipeline.close(HANGS_S)


def round_of(now_s: float, ofu: Ofu) -> Sequence[Observation]:
    """Four GPUs, each with a job of its own."""
    window = Window(now_s - STEP_S, now_s)
    found = []
    for gpu, job in JOBS.items():
        owner = {"ofu.job.id": job, "slurm.job.name": f"train-{job}"}
        value = ofu(gpu, now_s)
        entity = Entity("gpu", gpu, {"hw.id": gpu, **owner})
        found.append(Observation(entity, window, {"ofu": value}))
        values = {"job_ofu": value, "job_gpu_count": 1.0}
        found.append(Observation(Entity("job", job, owner), window, values))
    return found


def fallen(gpu: str, now_s: float) -> float:
    """One after another falls, but one."""
    if gpu == WELL:
        return 0.8
    return 0.4 if now_s <= START_S + 60 * FELL_AT_MIN[gpu] else 0.05


def lived(folder: Path) -> None:
    """The story: a finding that was notified, one that could not be, one that is pending."""
    (folder / "state").mkdir(parents=True)
    with servers() as to:
        agent = Agent(folder, to, START_S)
        agent.live(START_S + 60 * OUTAGE_AT_MIN, fallen)
        agent.settle()
        notified = to.sent("webhook")
        to.outage()
        agent.live(START_S + 60 * END_AT_MIN, fallen)
        agent.close()
        sent = {"webhook": notified, "alertmanager": to.sent("alertmanager")}
    (folder / "sent.json").write_text(json.dumps(sent))


def pack(file: Path) -> None:
    """Lives the story and packs what it leaves behind."""
    with tempfile.TemporaryDirectory() as name, tarfile.open(file, "w:gz") as packed:
        lived(Path(name))
        for part in ("state", "sent.json"):
            packed.add(Path(name) / part, part)


if __name__ == "__main__":
    pack(Path(sys.argv[1]))
