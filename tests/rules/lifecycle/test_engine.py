"""The engine over rounds: what it emits, what survives a restart, what a reload keeps."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Entity, EntityKind, Finding, RankedCause
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.files import RuleSet, rules_from_text
from otel_ofu.rules.lifecycle.engine import Engine
from otel_ofu.rules.lifecycle.evaluation import Times
from otel_ofu.rules.lifecycle.storage import FindingStorage
from tests.properties import examples
from tests.rules.lifecycle.script import ROUND_S, START_S, Run, Script, rules

FOR_1M = "for: 1m"


def test_a_finding_carries_what_people_need() -> None:
    run = Run(
        rules(
            "for: 1m\nlink: https://example.org/low\nshadow: true\ncauses: [debug_flag]\n"
            "labels: {severity: error, team: 'of {{ $labels.ofu_job_id }}'}\n"
            "annotations: {summary: '{{ $labels.hw_id }} at {{ $value | percent }}, "
            "not {{ $threshold | percent }} ({{ $labels.team }})'}"
        ),
        Script("hhh"),
    ).live(3)
    (finding,) = run.findings
    assert finding.entity is not None
    assert (finding.kind, finding.rule, finding.entity.id) == ("opened", "LowOfu", "gpu0")
    assert (finding.since_s, finding.fired_s, finding.at_s) == (
        START_S,
        START_S + 60,
        START_S + 60,
    )
    assert finding.value == pytest.approx(2.1)
    assert (finding.threshold, finding.window_s, finding.coverage) == (0.5, 600.0, 0.5)
    assert (finding.severity, finding.shadow, finding.link) == (
        "error",
        True,
        "https://example.org/low",
    )
    assert finding.labels == {"severity": "error", "team": "of 7"}
    assert finding.annotations == {"summary": "gpu0 at 210%, not 50% (of 7)"}
    assert finding.candidates == ("debug_flag",)


def test_an_end_has_what_diagnosis_added() -> None:
    cause = RankedCause("debug_flag", "A switch", 0.9)
    emitted: list[Finding] = []

    def diagnose(finding: Finding) -> Finding:
        opened = finding.kind == "opened"
        return (
            msgspec.structs.replace(finding, causes=[cause], severity="info") if opened else finding
        )

    engine = Engine(rules(), Script("hc"), emitted.extend, diagnose=diagnose)
    engine.tick(START_S)
    assert [finding.causes for finding in engine.active()] == [[cause]]
    assert list(engine.observations(START_S)[0].values) == ["finding_active:LowOfu:warning"]
    engine.tick(START_S + ROUND_S)
    assert [(f.kind, f.severity, f.causes) for f in emitted] == [
        ("opened", "info", [cause]),
        ("resolved", "info", [cause]),
    ]


def test_every_entity_has_its_own_life() -> None:
    run = Run(rules(FOR_1M), Script("hhhhc", "chhhh", "ccccc")).live(5)
    assert run.emitted == [
        ("opened", "LowOfu", "gpu0", 2, "", 1),
        ("opened", "LowOfu", "gpu1", 3, "", 1),
        ("resolved", "LowOfu", "gpu0", 4, "recovered", 1),
    ]
    assert [c.entity and c.entity.id for c in run.engine.active()] == ["gpu1"]


def test_an_entity_that_is_gone_ends_as_no_data() -> None:
    run = Run(rules("missing_timeout: 1m"), Script("h----")).live(5)
    assert run.emitted == [
        ("opened", "LowOfu", "gpu0", 0, "", 1),
        ("resolved", "LowOfu", "gpu0", 3, "no_data", 1),
    ]
    assert run.findings[-1].value is None


def test_the_second_condition_holds_the_end_back() -> None:
    run = Run(rules("clear: sm_clock > 1e9"), Script("hccc", clears=["cccch"[1:]])).live(4)
    assert [one[0] for one in run.emitted] == ["opened", "resolved"]
    assert run.emitted[-1][3] == 3


def test_beyond_the_limit_findings_are_notified_as_one_summary() -> None:
    run = Run(
        rules("limit: 2"),
        Script("hhhhc", "hhhhc", "hhhcc", "chhcc", "cchcc", "cchcc"),
    ).live(5)
    assert run.emitted == [
        ("opened", "LowOfu", "gpu0", 0, "", 1),
        ("opened", "LowOfu", "gpu1", 0, "", 1),
        ("opened", "LowOfu", "", 0, "", 1),
        ("updated", "LowOfu", "", 1, "", 2),
        ("updated", "LowOfu", "", 2, "", 4),
        ("resolved", "LowOfu", "", 3, "recovered", 0),
        ("resolved", "LowOfu", "gpu0", 4, "recovered", 1),
        ("resolved", "LowOfu", "gpu1", 4, "recovered", 1),
    ]
    summaries = [c for c in run.findings if c.entity is None]
    assert len({c.fingerprint for c in summaries}) == 1
    assert summaries[2].annotations["summary"].startswith("LowOfu: 4 more gpus")


def test_a_summary_is_updated_when_its_number_halves_and_not_before() -> None:
    run = Run(rules("limit: 1"), Script("hhhhh", "hhhhh", "hhhhc", "hhccc", "hcccc")).live(5)
    assert [one for one in run.emitted if not one[2]] == [
        ("opened", "LowOfu", "", 0, "", 4),
        ("updated", "LowOfu", "", 2, "", 2),
        ("updated", "LowOfu", "", 4, "", 1),
    ]


def test_only_groups_that_are_due_are_judged_at_the_scheduled_instant() -> None:
    script = Script("h" * 20)
    run = Run(rules(), script)
    for second in range(90):
        run.engine.tick(START_S + second)
    assert script.asked == [START_S, START_S + 30, START_S + 60]


class Counts:
    """A meter that remembers."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, object]] = []

    def judged(self, seconds: float, late_s: float) -> None:
        assert seconds >= 0
        self.seen.append(("late", late_s))

    def skipped(self, group: str, rounds: int) -> None:
        self.seen.append((f"skipped {group}", rounds))

    def failed(self, rule: str, error: str) -> None:
        self.seen.append((f"failed {rule}", error))

    def unsaved(self, error: str) -> None:
        self.seen.append(("unsaved", error))


def test_late_and_skipped_rounds_are_counted() -> None:
    counts = Counts()
    run = Run(rules(), Script("h" * 20), meter=counts)
    run.engine.tick(START_S)
    run.clock.set(START_S + 65)
    run.engine.tick(START_S + 60)
    assert counts.seen == [("late", 0.0), ("skipped g", 1), ("late", 5.0)]


def test_a_clock_that_is_set_back_or_far_forward_stops_nothing() -> None:
    run = Run(rules(), Script("h" * 20))
    run.live(3)
    run.engine.tick(START_S - 86_400)
    run.engine.tick(START_S + 10 * 365 * 86_400)
    run.engine.tick(START_S + 60)
    assert len(run.script.asked) == 6


def test_a_rule_that_cannot_be_judged_leaves_the_others_alone() -> None:
    counts = Counts()
    (broken,) = rules(name="Broken", expr="power > 1").groups
    both = RuleSet((*rules().groups, replace(broken, name="other")))
    run = Run(both, Script("hhh", fail="power"), meter=counts).live(2)
    assert [one[1] for one in run.emitted] == ["LowOfu"]
    assert ("failed Broken", "ZeroDivisionError") in counts.seen


class Away:
    """The server that knows is away."""

    def last_seen(self, kind: EntityKind) -> tuple[Sequence[Entity | None], Times]:
        raise ConnectionError("server away")


def test_a_server_that_is_away_leaves_the_other_rules_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    silent = rules_from_text(
        "groups:\n  - name: s\n    interval: 30s\n    rules:\n"
        "      - {alert: Silent, each: gpu, silent_for: 5m}\n",
        load_registry(),
    )
    both = RuleSet((*rules().groups, *silent.groups))
    found: list[Finding] = []
    engine = Engine(
        both, Script("hhh"), found.extend, last_seen=Away(), clock=VirtualClock(START_S)
    )
    for number in range(3):
        engine.tick(START_S + number * ROUND_S)
    assert [finding.rule for finding in found] == ["LowOfu"]
    assert caplog.text.count("rule Silent cannot be judged") == 1


# ---- restart and reload ----


def test_since_is_exact_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "findings.sqlite"
    run = Run(rules("for: 1m"), Script("hhhhhhc"), path).live(2).restart().live(1)
    assert run.findings[0].since_s == START_S
    run.restart().live(1)
    assert len(run.findings) == 1
    (active,) = run.engine.active()
    assert (active.since_s, active.fired_s) == (START_S, START_S + 60)
    run.live(3)
    assert [one[0] for one in run.emitted] == ["opened", "resolved"]
    assert run.findings[0].fingerprint == run.findings[1].fingerprint


def test_a_pending_finding_begins_anew_after_a_long_stop(tmp_path: Path) -> None:
    run = Run(rules("for: 2m"), Script("h" * 200), tmp_path / "f.sqlite").live(2).restart()
    run.number = 100
    run.live(5)
    assert run.emitted == [("opened", "LowOfu", "gpu0", 104, "", 1)]


def test_a_pending_finding_goes_on_after_a_gap_of_no_more_than_missing_timeout() -> None:
    """Which is five rounds by default; after six it begins anew."""
    for gap, opened in ((5, 5), (6, 11)):
        run = Run(rules("for: 150s"), Script("h" * 20)).live(1)
        run.number = gap
        run.live(8)
        assert [at for _, _, _, at, *_ in run.emitted] == [opened]


@pytest.mark.parametrize("returns", ["restart", "stall"])
@pytest.mark.parametrize("first", ["?", "??", "-", "-?"])
def test_a_pending_finding_begins_anew_when_the_first_verdict_after_a_day_is_unknown(
    tmp_path: Path, first: str, returns: str
) -> None:
    """A day is 2,880 rounds; the condition holds from the first verdict that is known."""
    script = "h" * 2_880 + first + "h" * 9
    run = Run(rules("for: 2m"), Script(script), tmp_path / "f.sqlite").live(2)
    if returns == "restart":
        run.restart()
    run.number = 2_880
    run.live(9)
    known = 2_880 + len(first)
    assert [(kind, at) for kind, _, _, at, *_ in run.emitted] == [("opened", known + 4)]
    assert run.findings[0].since_s == START_S + known * ROUND_S


SCRIPTS = st.lists(st.text("hc?", min_size=25, max_size=25), min_size=1, max_size=4)
TEXTS = st.sampled_from(
    [
        "",
        "for: 1m",
        "for: 2m\nkeep_firing_for: 1m\nmissing_timeout: 1m",
        "limit: 1",
        "limit: 2\nfor: 1m\nmissing_timeout: 2m",
    ]
)


@examples(0.25)
@given(SCRIPTS, TEXTS, st.sets(st.integers(1, 24), max_size=6))
def test_a_restart_at_any_point_gives_the_same_sequence(
    scripts: list[str], text: str, stops: set[int]
) -> None:
    straight = Run(rules(text), Script(*scripts)).live(25)
    with tempfile.TemporaryDirectory() as folder:
        broken = Run(rules(text), Script(*scripts), Path(folder) / "f.sqlite")
        for number in range(25):
            if number in stops:
                broken.restart()
            broken.live()
        broken.engine.close()
    assert broken.emitted == straight.emitted
    assert [c.since_s for c in broken.findings] == [c.since_s for c in straight.findings]


@given(SCRIPTS, TEXTS)
def test_everything_that_opens_ends_exactly_once(scripts: list[str], text: str) -> None:
    run = Run(rules(text), Script(*(script + "c" * 30 for script in scripts))).live(55)
    open_now: set[str] = set()
    for finding in run.findings:
        if finding.kind == "opened":
            assert finding.fingerprint not in open_now
            open_now.add(finding.fingerprint)
        elif finding.kind == "resolved":
            open_now.remove(finding.fingerprint)
        else:
            assert finding.fingerprint in open_now
    assert not open_now
    assert not run.engine.active()


def test_a_reload_with_the_same_rule_keeps_everything() -> None:
    run = Run(rules(FOR_1M), Script("hhhhh")).live(2)
    run.engine.reload(rules(FOR_1M))
    run.live(1)
    assert run.emitted == [("opened", "LowOfu", "gpu0", 2, "", 1)]


def test_a_changed_condition_begins_anew_but_keeps_what_is_firing() -> None:
    run = Run(rules(FOR_1M), Script("hhhhhhc", "cchhhhh")).live(3)
    run.engine.reload(rules(FOR_1M, expr="avg(ofu, 10m) < 20%"))
    run.live(4)
    assert run.emitted == [
        ("opened", "LowOfu", "gpu0", 2, "", 1),
        ("updated", "LowOfu", "gpu0", 3, "rule_changed", 1),
        ("opened", "LowOfu", "gpu1", 5, "", 1),
        ("resolved", "LowOfu", "gpu0", 6, "recovered", 1),
    ]


def test_a_reload_with_no_rules_ends_everything(tmp_path: Path) -> None:
    run = Run(rules(), Script("hhh"), tmp_path / "f.sqlite").live(1)
    run.engine.reload(RuleSet())
    assert len(run.engine.rules) == 0
    run.live(1)
    assert not run.engine.active()
    run.rules = RuleSet()
    run.restart().live(1)
    assert [(one[0], one[4]) for one in run.emitted] == [
        ("opened", ""),
        ("resolved", "rule_removed"),
    ]


def test_a_changed_for_counts_at_once_for_what_is_pending() -> None:
    run = Run(rules("for: 10m"), Script("hhhhh")).live(3)
    run.engine.reload(rules("for: 1m"))
    run.live(1)
    assert run.findings[0].since_s == START_S
    assert run.emitted == [("opened", "LowOfu", "gpu0", 3, "", 1)]


def test_a_removed_rule_resolves_also_while_the_agent_is_down(tmp_path: Path) -> None:
    text = "labels: {team: 'x {{ $labels.host_name }}'}"
    run = Run(rules(text), Script("hhhhh"), tmp_path / "f.sqlite").live(2)
    run.rules = rules(name="Other", expr="power > 900")
    run.restart().live(1)
    assert run.emitted[:2] == [
        ("opened", "LowOfu", "gpu0", 0, "", 1),
        ("resolved", "LowOfu", "gpu0", 2, "rule_removed", 1),
    ]
    assert run.findings[1].labels == {"team": "x n1"}
    run.restart().live(1)
    assert [one for one in run.emitted if one[1] == "LowOfu"] == run.emitted[:2]


def test_other_static_labels_are_another_finding() -> None:
    run = Run(rules("labels: {severity: warning}"), Script("hhhh")).live(2)
    run.engine.reload(rules("labels: {severity: error}"))
    run.live(1)
    assert [(one[0], one[4]) for one in run.emitted] == [
        ("opened", ""),
        ("resolved", "rule_removed"),
        ("opened", ""),
    ]
    assert run.findings[0].fingerprint == run.findings[1].fingerprint
    assert run.findings[0].fingerprint != run.findings[2].fingerprint


def test_a_damaged_file_is_set_aside_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "findings.sqlite"
    path.write_bytes(b"no database at all" * 100)
    storage = FindingStorage(path)
    assert len(storage.messages) == 1
    assert "set aside as findings.unusable" in storage.messages[0]
    storage.close()
    assert (tmp_path / "findings.unusable").exists()
    run = Run(rules(), Script("hh"), path).live(1).restart().live(1)
    assert [one[0] for one in run.emitted] == ["opened"]


def test_a_file_that_cannot_be_opened_leaves_the_findings_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "no-such-folder" / "findings.sqlite"
    run = Run(rules(), Script("hc"), path).live(2)
    assert [one[0] for one in run.emitted] == ["opened", "resolved"]
    storage = FindingStorage(path)
    assert "findings do not survive a restart" in storage.messages[0]


def test_a_file_that_cannot_be_opened_now_is_not_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "findings.sqlite"
    path.mkdir()
    storage = FindingStorage(path)
    assert "findings do not survive a restart" in storage.messages[0]
    assert path.is_dir()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE findings SET labels='{'",
        "UPDATE findings SET labels=17",
        "UPDATE findings SET attributes=x'7b'",
        "UPDATE findings SET phase='dancing'",
        "UPDATE findings SET entity=CAST(x'ff' AS TEXT)",
        "UPDATE rules SET evaluated_s='x'",
        "UPDATE rules SET kind='moon'",
        "DROP TABLE findings",
    ],
)
def test_one_damaged_row_sets_the_file_aside_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    path = tmp_path / "findings.sqlite"
    Run(rules(), Script("hh"), path).live(1).engine.close()
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(damage)
    storage = FindingStorage(path)
    assert storage.load() == {}
    storage.close()
    assert "set aside as findings.unusable" in storage.messages[0]
    assert caplog.messages == storage.messages
    again = FindingStorage(path)
    again.close()
    assert again.messages == []


def test_a_file_of_another_version_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "findings.sqlite"
    FindingStorage(path).close()
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version=99")
    other.close()
    storage = FindingStorage(path)
    assert "it is of version 99" in storage.messages[0]
    storage.close()


def test_a_disk_that_takes_no_writes_stops_nothing_and_is_made_up_for(tmp_path: Path) -> None:
    counts = Counts()
    path = tmp_path / "findings.sqlite"
    run = Run(rules("for: 1m"), Script("hhhhhh"), path, meter=counts).live(1)
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    own = run.engine._storage._file._db
    assert own is not None
    own.execute("PRAGMA busy_timeout=0")
    run.live(2)
    assert [one[0] for one in run.emitted] == ["opened"]
    assert ("unsaved", "OperationalError") in counts.seen
    blocker.execute("ROLLBACK")
    blocker.close()
    run.live(1).restart().live(1)
    assert len(run.findings) == 1
    assert run.engine.active()[0].since_s == START_S


def test_the_active_metric_speaks_of_the_entities_with_open_findings() -> None:
    run = Run(rules("labels: {severity: error}"), Script("hh", "ch", "cc")).live(2)
    seen = run.engine.observations(START_S + ROUND_S)
    assert [(o.entity.id, dict(o.values)) for o in seen] == [
        ("gpu0", {"finding_active:LowOfu:error": 1.0}),
        ("gpu1", {"finding_active:LowOfu:error": 1.0}),
    ]
