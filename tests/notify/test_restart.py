"""After a restart alerts go on, nobody is told the same again, and what ended meanwhile is told."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from otel_ofu.model.clock import VirtualClock
from otel_ofu.notify.conditions import parse_matcher
from otel_ofu.notify.router import FILE
from tests.notify.rig import NOW_S, finding, rig

AM = "route/alertmanager/127.0.0.1:9093"
SERVERS = {"alertmanager": {"servers": ["http://127.0.0.1:9093"]}}


def test_a_group_that_was_told_is_not_told_again_and_its_end_is(tmp_path: Path) -> None:
    clock = VirtualClock(NOW_S)
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.handle(finding("1"))
        r.run(31)
        assert len(r.notified()) == 1
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.run(900)
        assert r.notified() == []
        r.handle(finding("1", "resolved"))
        r.run(301)
        assert r.names() == [("resolved", ["r:1"])]


def test_a_group_that_was_not_told_yet_is_told_once(tmp_path: Path) -> None:
    clock = VirtualClock(NOW_S)
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.handle(finding("1"))
        r.run(20)
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.run(11)
        assert r.names() == [("firing", ["f:1"])]


def test_what_was_covered_stays_so_until_the_wider_alert_ends(tmp_path: Path) -> None:
    clock = VirtualClock(NOW_S)
    seven = "LowOfu/job/7"
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.handle(finding("7", each="job"), finding("1", incident=seven))
        r.run(31)
        assert r.names() == [("firing", ["f:7"])]
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.run(301)
        assert r.names() == []
        r.handle(finding("7", "resolved", each="job"))
        r.run(301)
        assert sorted(r.names()) == [("firing", ["f:1"]), ("resolved", ["r:7"])]


def test_gpus_that_an_earlier_revision_kept_quiet_stay_so(tmp_path: Path) -> None:
    """It stored no incidents: a job and a node kept the GPUs with their labels quiet."""
    clock = VirtualClock(NOW_S)
    labels = {"ofu.job.id": "7", "host.name": "n1"}
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.handle(finding("7", each="job"), finding("n2", each="node"))
        r.run(31)
        r.notified()
        r.handle(
            finding("1", attributes=labels),
            finding("2", attributes={**labels, "ofu.job.id": "8"}),
            finding("3", attributes={"host.name": "n2"}),
            finding("4", attributes=labels, severity="critical"),
        )
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.run(301)
        notified = {name for _, names in r.names() for name in names}
        assert notified & {"f:1", "f:2", "f:3", "f:4"} == {"f:2", "f:4"}


def test_an_end_that_was_not_told_yet_is_told(tmp_path: Path) -> None:
    clock = VirtualClock(NOW_S)
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.handle(finding("1"))
        r.run(31)
        r.handle(finding("1", "resolved"))
        r.notified()
    clock.advance(3600)
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.run(2)
        assert r.names() == [("resolved", ["r:1"])]
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.run(2)
        assert r.names() == []


def test_alertmanagers_get_the_same_labels_and_start_at_once(tmp_path: Path) -> None:
    clock = VirtualClock(NOW_S)
    with rig(SERVERS, tmp_path, clock) as r:
        r.handle(finding("1", attributes={"ofu.job.id": "7"}))
        (before,) = r.notified(AM)
    with rig(SERVERS, tmp_path, clock) as r:
        r.run(1)
        (after,) = r.notified(AM)
    keys = ("labels", "startsAt")
    assert [before[0][k] for k in keys] == [after[0][k] for k in keys]


def test_a_summary_stays_a_summary(tmp_path: Path) -> None:
    clock = VirtualClock(NOW_S)
    with rig({"max_groups": 1}, tmp_path, clock) as r:
        r.handle(*(finding(str(i), each="job") for i in range(5)))
        r.run(31)
        assert [len(n["alerts"]) for n in r.notified()] == [1, 4]
    with rig({"max_groups": 1}, tmp_path, clock) as r:
        r.run(600)
        assert r.notified() == []
        r.handle(finding("3", "resolved", each="job"))
        r.run(301)
        assert [len(n["alerts"]) for n in r.notified()] == [4]


def test_routes_that_changed_meanwhile_are_followed(tmp_path: Path) -> None:
    clock = VirtualClock(NOW_S)
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.handle(finding("1"))
        r.run(31)
        r.notified()
    block = {"receivers": [{"name": "new", "stdout_configs": [{}]}], "receiver": "new"}
    with rig(block, tmp_path, clock) as r:
        r.run(31)
        assert r.names("route/new/stdout-0") == [("firing", ["f:1"])]


TEAM: dict[str, Any] = {
    "severity": "critical",
    "labels": {"team": "nlp"},
    "attributes": {"ofu.job.id": "7"},
}


@pytest.mark.parametrize(
    ("path", "matchers"),
    [
        ('{}/{severity="critical"}', ["severity=critical"]),
        ('{}/{team="nlp"}/{severity="critical"}', ["team=nlp", "severity=critical"]),
    ],
    ids=["a route", "a route in a route"],
)
def test_a_group_of_an_earlier_revision_is_carried_on(
    path: str, matchers: list[str], tmp_path: Path
) -> None:
    """Groups are named by the matchers of their route, which had several levels once."""
    key = f'{path}|ops:{{ofu_job_id="7"}}'
    _kept_by_an_earlier_revision(tmp_path, key)
    clock, block = VirtualClock(NOW_S), {"routes": [{"matchers": matchers}]}
    with rig(block, tmp_path, clock) as r:
        r.run(900)
        assert r.notified() == []
        r.handle(finding("2", **TEAM))
        r.run(301)
        (news,) = r.notified()
        assert (news["groupKey"], len(news["alerts"])) == (key, 2)
    with rig(block, tmp_path, clock) as r:
        r.handle(finding("1", "resolved", **TEAM), finding("2", "resolved", **TEAM))
        r.run(301)
        (end,) = r.notified()
        assert (end["groupKey"], end["status"]) == (key, "resolved")
        r.handle(finding("1", **TEAM))
        r.run(31)
        (anew,) = r.notified()
        assert anew["groupKey"] == f'{{}}/{{{_shown(matchers)}}}|ops:{{ofu_job_id="7"}}'


def _shown(matchers: list[str]) -> str:
    return ", ".join(str(parse_matcher(text)) for text in matchers)


def _kept_by_an_earlier_revision(folder: Path, key: str) -> None:
    """route.sqlite (user_version 1) with one alert, GPU 1 of job 7, whose group was notified."""
    id_ = "LowOfu/gpu/1-54504846"
    diagnosis = {
        "kind": "opened", "rule": "LowOfu", "fingerprint": "LowOfu/gpu/1", "severity": "critical",
        "entity": {"kind": "gpu", "id": "1", "attributes": {"hw.id": "1", "ofu.job.id": "7"}},
        "at_s": NOW_S - 400, "since_s": NOW_S - 600, "summary": "LowOfu on 1", "reason": "",
        "value": None, "threshold": None, "labels": {"team": "nlp"}, "annotations": {},
        "causes": [], "facts": {}, "link": "", "shadow": False, "count": 1,
    }  # fmt: skip
    labels = {"hw_id": "1", "ofu_job_id": "7", "ofu_entity": "gpu", "team": "nlp"}
    labels |= {"alertname": "LowOfu", "severity": "critical"}
    alert = {"id": id_, "diagnosis": diagnosis, "labels": labels, "starts_s": NOW_S - 600}
    group = {"labels": {"ofu_job_id": "7"}, "due_s": NOW_S - 70, "firing": [id_]}
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.executescript(
            "CREATE TABLE alert (id TEXT PRIMARY KEY, raw BLOB NOT NULL) WITHOUT ROWID;"
            "CREATE TABLE alert_group (key TEXT PRIMARY KEY, raw BLOB NOT NULL) WITHOUT ROWID;"
            "PRAGMA user_version=1;"
        )
        kept = json.dumps({**alert, "ends_s": None, "groups": [key]}).encode()
        db.execute("INSERT INTO alert VALUES (?, ?)", (id_, kept))
        told = json.dumps({**group, "told_s": NOW_S - 370}).encode()
        db.execute("INSERT INTO alert_group VALUES (?, ?)", (key, told))
        db.commit()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"no database" * 1000),
        lambda path: _execute(path, "UPDATE alert SET raw = '{}'"),
        lambda path: _execute(path, "PRAGMA user_version = 9"),
        lambda path: _execute(path, "UPDATE alert SET raw = 7"),
        lambda path: _execute(path, "UPDATE alert SET raw = CAST(x'ff' AS TEXT)"),
        lambda path: _execute(path, "DROP TABLE alert"),
    ],
    ids=["no database", "no alert", "of a later version", "a number", "no UTF-8", "no table"],
)
def test_a_broken_file_is_set_aside_and_said(
    damage: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with rig(state_dir=tmp_path) as r:
        r.handle(finding("1"))
    assert callable(damage)
    damage(tmp_path / FILE)
    with rig(state_dir=tmp_path) as r:
        r.handle(finding("2"))
        r.run(31)
        assert r.names() == [("firing", ["f:2"])]
    assert "groups start empty" in caplog.text
    assert (tmp_path / f"{FILE}.broken").exists()


def test_a_folder_in_place_of_the_file_is_said_and_routing_works(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / FILE).mkdir()
    with rig(state_dir=tmp_path) as r:
        r.handle(finding("1"))
        r.run(31)
        assert r.names() == [("firing", ["f:1"])]
    assert "a folder is in its place; groups do not survive a restart" in caplog.text


def test_a_disk_that_takes_nothing_is_said_once_and_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = VirtualClock(NOW_S)
    with rig(state_dir=tmp_path, clock=clock) as r:
        db = r.router._memory._file._db
        assert db is not None
        db.execute("PRAGMA query_only = 1")
        r.handle(finding("1"))
        r.run(31)
        db.execute("PRAGMA query_only = 0")
        r.run(301)
        assert len(r.notified()) == 1
    assert [m.partition(": ")[2] for m in caplog.messages] == [
        "attempt to write a readonly database; groups are kept in memory until it can be written",
        "writing works again",
    ]
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.run(600)
        assert r.notified() == []


def test_values_that_are_no_numbers_do_not_spoil_the_file(tmp_path: Path) -> None:
    odd = finding("1", value=float("nan"), facts={"ofu": float("inf"), "ofu_before": 0.4})
    with rig(state_dir=tmp_path) as r:
        r.handle(odd)
    with rig(state_dir=tmp_path) as r:
        r.run(31)
        ((alert,),) = [n["alerts"] for n in r.notified()]
        assert alert["annotations"]["fact_ofu_before"] == "0.4"
        assert "fact_ofu" not in alert["annotations"]


def _execute(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()


def test_a_clock_that_was_set_back_meanwhile_keeps_nobody_waiting(tmp_path: Path) -> None:
    clock = VirtualClock(NOW_S)
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.handle(finding("1"))
        r.run(31)
        r.notified()
    clock.set(NOW_S - 86_400)
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.handle(finding("1", "resolved"))
        r.run(301)
        assert r.names() == [("resolved", ["r:1"])]


def test_what_is_over_leaves_nothing_in_the_file(tmp_path: Path) -> None:
    clock = VirtualClock(NOW_S)
    with rig(state_dir=tmp_path, clock=clock) as r:
        r.handle(finding("1"), finding("2", each="job"))
        r.run(31)
        r.handle(finding("1", "resolved"))
        r.run(1300, 10.0)
    assert _rows(tmp_path) == (1, 1)
    block = {"receivers": [{"name": "new", "stdout_configs": [{}]}], "receiver": "new"}
    with rig(block, tmp_path, clock) as r:
        r.run(1)
    assert _rows(tmp_path) == (1, 0)  # the group of the old receiver is gone
    with rig(block, tmp_path, clock) as r:
        r.handle(finding("2", "resolved", each="job"))
        r.run(1300, 10.0)
    assert _rows(tmp_path) == (0, 0)


def _rows(folder: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(folder / FILE)) as db:
        (alerts,) = db.execute("SELECT count(*) FROM alert").fetchone()
        (groups,) = db.execute("SELECT count(*) FROM alert_group").fetchone()
    return alerts, groups
