"""A state_dir of an earlier revision is taken over: nothing is notified twice, nothing is lost.

tests/golden/state/ has one for each revision whose state has to stay readable (its README says how
they were made). What they hold, and what has to stay readable or be converted, by file:

- agent-id: one UUID.
- findings.sqlite (user_version 1):
  rules (identity, name, kind, severity, shadow, condition, words, evaluated_s),
  findings (rule, entity, phase, since_s, fired_s, calm_s, unknown_s, told, count, labels,
  attributes), the last two as JSON.
- baselines.sqlite (1): jobs (fingerprint, ofu, minutes, seen_s, low_since_s).
- route.sqlite (1): alert (id, raw), the JSON {id, diagnosis, labels, starts_s, ends_s, groups};
  alert_group (key, raw), the JSON {labels, due_s, firing, told_s}. Keys such as
  {}|ops:{ofu_job_id="7"}: the path of the route, the receiver, the labels of the group.
- outbox.sqlite (1): parcel (id, exporter, priority, created_s, signal, points, body); body is
  gzipped, exporter is otlp_http, otlp_grpc, otlp, route/RECEIVER/KIND-NUMBER or
  route/alertmanager/ADDRESS, signal is metrics, logs or notification.
- store/store/: gpu, job and node, each .ring (layout version 1) and .entities (JSON).
- diagnoses.jsonl: a diagnosis a line.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import tarfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from otel_ofu.cli.main import run
from tests.app.state_story import (
    END_AT_MIN,
    NOTIFIED,
    OUTAGE_AT_MIN,
    PENDING,
    RULES,
    START_S,
    STEP_S,
    UNSENT,
    Agent,
    Servers,
    fallen,
    lived,
    servers,
)

KEPT = Path(__file__).parents[1] / "golden" / "state"
DOWN_S = 60.0
ROUND_S = 30.0
END_S = START_S + 60 * END_AT_MIN
AGAIN_S = END_S + DOWN_S

# Each is true in the first round after the restart only by what was there before it; the second has
# to stay true, as its last value is in the history. Nobody is notified of a rule on trial, but its
# event is sent.
MORE_RULES = """\
      - alert: HistoryIsKnown
        each: gpu
        expr: avg(ofu, 5m) > 60%
        shadow: true
      - alert: BaselineIsKnown
        each: job
        expr: job_ofu_baseline > 60%
        for: 2m
        shadow: true
"""


@dataclass(frozen=True)
class Before:
    """What the kept state holds."""

    agent_id: str
    findings: dict[str, tuple[str, float]]
    unsent: list[tuple[str, str, bytes]]
    sent: dict[str, list[Any]]


@dataclass(frozen=True)
class Taken:
    """The state before, who was sent what by the agent that took it over, and what is left."""

    folder: Path
    before: Before
    to: Servers
    unsent: int

    def metrics(self, without: Collection[bytes] = ()) -> Iterator[Any]:
        """Resource metrics, but for those of these requests."""
        for got in self.to.otlp.got:
            if got.path == "/v1/metrics" and got.raw not in without:
                yield from ExportMetricsServiceRequest.FromString(got.raw).resource_metrics

    def events(self, rule: str, entity: str = "") -> list[Any]:
        """Records of a rule, as dictionaries of attributes with their `name` and `time_s`."""
        found = []
        requests = (got.raw for got in self.to.otlp.got if got.path == "/v1/logs")
        for request in map(ExportLogsServiceRequest.FromString, requests):
            for resource in request.resource_logs:
                whose = attributes_of(resource)
                for record in resource.scope_logs[0].log_records:
                    said: dict[str, Any] = {a.key: a.value.string_value for a in record.attributes}
                    said |= {"name": record.event_name, "time_s": record.time_unix_nano / 1e9}
                    if said["ofu.rule.id"] == rule and whose.get("hw.id", "").startswith(entity):
                        found.append(said)
        return found

    def notified(self, gpu: str) -> list[Any]:
        """The alerts of a GPU in the notifications to the webhook."""
        alerts = [alert for sent in self.to.sent("webhook") for alert in sent["alerts"]]
        return [alert for alert in alerts if alert["labels"]["hw_id"] == gpu]


def attributes_of(one: Any) -> dict[str, str]:  # noqa: ANN401 - metrics or logs of a resource
    return {a.key: a.value.string_value for a in one.resource.attributes}


def before(folder: Path) -> Before:
    state = folder / "state"
    with closing(sqlite3.connect(state / "findings.sqlite")) as db:
        rows = db.execute("SELECT entity, phase, since_s FROM findings").fetchall()
    with closing(sqlite3.connect(state / "outbox.sqlite")) as db:
        unsent = db.execute("SELECT exporter, signal, body FROM parcel ORDER BY id").fetchall()
    return Before(
        (state / "agent-id").read_text().strip(),
        {entity: (phase, since_s) for entity, phase, since_s in rows},
        [(exporter, signal, gzip.decompress(body)) for exporter, signal, body in unsent],
        json.loads((folder / "sent.json").read_text()),
    )


def iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def ofu(gpu: str, now_s: float) -> float:
    """The GPU that was notified recovers two minutes after the restart."""
    return 0.4 if gpu == NOTIFIED and now_s > AGAIN_S + 120 else fallen(gpu, now_s)


@pytest.fixture(scope="module", params=[*(p.name for p in KEPT.glob("*.tar.gz")), "present"])
def taken(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Taken]:
    folder = tmp_path_factory.mktemp("taken")
    if request.param == "present":
        lived(folder)
    else:
        with tarfile.open(KEPT / request.param) as packed:
            packed.extractall(folder, filter="data")
    known = before(folder)
    with servers() as to:
        agent = Agent(folder, to, AGAIN_S, RULES + MORE_RULES)
        for minute in range(1, 9):
            agent.live(AGAIN_S + 60 * minute, ofu)
            agent.settle()
        agent.close()
        yield Taken(folder, known, to, len(before(folder).unsent))


def test_the_kept_state_holds_what_is_to_be_taken_over(taken: Taken) -> None:
    assert {gpu: phase for gpu, (phase, _) in taken.before.findings.items()} == {
        NOTIFIED: "firing", UNSENT: "firing", PENDING: "pending",
    }  # fmt: skip
    kinds = Counter((exporter, signal) for exporter, signal, _ in taken.before.unsent)
    assert kinds["otlp_http", "metrics"] >= 18
    assert (kinds["otlp_http", "logs"], kinds["route/ops/webhook-0", "notification"]) == (1, 1)


def test_the_agent_keeps_its_id(taken: Taken) -> None:
    waited = {raw for _, _, raw in taken.before.unsent}
    ids = {
        attributes["service.instance.id"]
        for one in taken.metrics(waited)
        if "hw.id" not in (attributes := attributes_of(one)) and "ofu.job.id" not in attributes
    }
    assert ids == {taken.before.agent_id}


def test_what_was_notified_is_not_notified_again_and_its_end_is(taken: Taken) -> None:
    ((told,),) = [sent["alerts"] for sent in taken.before.sent["webhook"]]
    (end,) = taken.notified(NOTIFIED)
    assert end["status"] == "resolved"
    assert [end[key] for key in ("labels", "startsAt", "fingerprint")] == [
        told[key] for key in ("labels", "startsAt", "fingerprint")
    ]
    assert [event["name"] for event in taken.events("LowOfu", NOTIFIED)] == ["ofu.finding.resolved"]


def test_alertmanager_gets_the_same_alerts_with_the_same_start(taken: Taken) -> None:
    def alerts(posts: Sequence[Any]) -> set[tuple[str, str]]:
        found = [alert for post in posts for alert in post]
        return {(json.dumps(a["labels"], sort_keys=True), a["startsAt"]) for a in found}

    old, new = alerts(taken.before.sent["alertmanager"]), alerts(taken.to.sent("alertmanager"))
    assert len(old) == 2
    assert old < new
    assert len(new) == 3  # the one that was pending has come


def test_what_could_not_be_notified_is_notified_once(taken: Taken) -> None:
    (waited,) = [raw for _, signal, raw in taken.before.unsent if signal == "notification"]
    (alert,) = taken.notified(UNSENT)
    assert [alert] == json.loads(waited)["payload"]["alerts"]


def test_unsent_telemetry_leaves_once(taken: Taken) -> None:
    got = Counter(one.raw for one in taken.to.otlp.got)
    for exporter, _, raw in taken.before.unsent:
        assert got[raw] == (1 if exporter == "otlp_http" else 0)
    assert [event["name"] for event in taken.events("LowOfu", UNSENT)] == ["ofu.finding.opened"]
    assert taken.unsent == 0


def test_no_round_of_the_outage_is_missing_and_none_is_there_twice(taken: Taken) -> None:
    seen = Counter(
        round(point.time_unix_nano / 1e9)
        for one in taken.metrics()
        if attributes_of(one).get("hw.id") == NOTIFIED
        for metric in one.scope_metrics[0].metrics
        if metric.name == "ofu.gpu.utilization"
        for point in metric.gauge.data_points
        if not point.flags and point.time_unix_nano / 1e9 <= END_S
    )
    outage_s = START_S + 60 * OUTAGE_AT_MIN
    assert seen == {
        round(outage_s + STEP_S * n): 1 for n in range(1, round((END_S - outage_s) / STEP_S) + 1)
    }


def test_what_was_pending_fires_with_its_old_since(taken: Taken) -> None:
    _, since_s = taken.before.findings[PENDING]
    (event,) = taken.events("LowOfu", PENDING)
    assert event["name"] == "ofu.finding.opened"
    assert event["ofu.finding.start_time"] == iso(since_s)
    assert event["time_s"] == since_s + 300
    (alert,) = taken.notified(PENDING)
    assert alert["status"] == "firing"


def test_history_is_there_in_the_first_round(taken: Taken) -> None:
    (time_s,) = opened(taken.events("HistoryIsKnown"))
    assert time_s <= AGAIN_S + ROUND_S


def test_usual_levels_of_jobs_are_there_from_the_first_round_on(taken: Taken) -> None:
    (time_s,) = opened(taken.events("BaselineIsKnown"))
    assert time_s <= AGAIN_S + 120 + 2 * ROUND_S


def test_what_was_notified_lately_is_explained(
    taken: Taken, capsys: pytest.CaptureFixture[str]
) -> None:
    config = taken.folder / "explain.yaml"
    config.write_text(f"state_dir: {taken.folder}/state\n")
    assert run(["explain", "-c", str(config)]) == 0
    text = capsys.readouterr().out
    assert "2026-11-02 12:41:30  opened    GPU-a: OFU is 5%" in text
    assert "2026-11-02 12:48:30  opened    GPU-c: OFU is 5%" in text


def opened(events: Sequence[Any]) -> list[float]:
    return [event["time_s"] for event in events if event["name"] == "ofu.finding.opened"]
