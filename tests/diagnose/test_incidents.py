"""One notification for each incident, and exactly one end for each that was reported."""

from msgspec.structs import replace

from otel_ofu.diagnose import Incidents
from otel_ofu.model import Entity, Evidence, Finding, FindingChange, RankedCause
from tests.diagnose.scene import entity


def found(
    name: str,
    cause: str | None = "debug_flag",
    kind: FindingChange = "opened",
    rule: str = "Low",
    at_s: float = 0.0,
) -> Finding:
    whose: Entity | None = entity(name) if name else None
    causes = [RankedCause(cause, cause, 0.9)] if cause else []
    return Finding(
        kind=kind,
        rule=rule,
        entity=whose,
        fingerprint=f"{rule} {name}",
        severity="warning",
        at_s=at_s,
        since_s=0.0,
        summary=f"{rule} on {name}",
        causes=causes,
    )


class Fleet:
    """On which nodes jobs are."""

    def __init__(self, **nodes: set[str]) -> None:
        self._nodes = nodes

    def nodes_of(self, job_id: str) -> set[str]:
        return self._nodes.get(job_id, set())


def known(**nodes: set[str]) -> Incidents:
    return Incidents(Fleet(**(nodes or {"job": {"node"}})))


def texts(findings: list[Finding]) -> list[str]:
    return [f"{d.kind} {d.fingerprint} {d.count}" for d in findings]


def test_gpus_of_a_job_with_one_cause_are_one_message_with_their_number() -> None:
    reported = known().report([found(f"gpu{n}") for n in range(8)])
    assert texts(reported) == ["opened Low gpu0 8"]


def test_the_numbers_of_a_message_are_those_of_all_of_its_gpus() -> None:
    facts = [{"ofu": 0.1, "gpus": 1.0, "gpu_hours_lost": 0.2, "began_s": 60.0},
             {"ofu": 0.3, "gpus": 1.0, "gpu_hours_lost": 0.1, "began_s": 30.0},
             {"gpus": 1.0}]  # fmt: skip
    each = [replace(found(f"gpu{n}"), facts=one) for n, one in enumerate(facts)]
    again = replace(found("gpu0", rule="Other"), facts=facts[0])
    incidents = known()
    (one,) = incidents.report([*each, again])
    assert one.count == 4
    assert {name: round(value, 9) for name, value in one.facts.items()} == {
        "ofu": 0.2, "gpus": 3.0, "gpu_hours_lost": 0.3, "began_s": 30.0
    }  # fmt: skip
    ends = [replace(one, kind="resolved") for one in (*each, again)]
    (end,) = incidents.report(ends)
    assert end.facts == one.facts


def test_the_numbers_of_a_job_are_its_own() -> None:
    job = replace(found("job", rule="Fell"), facts={"ofu": 0.2, "gpus": 2.0})
    (one,) = known().report([replace(found("gpu0"), facts={"ofu": 0.9, "gpus": 1.0}), job])
    assert (one.count, one.facts) == (2, {"ofu": 0.2, "gpus": 2.0})


def test_another_cause_is_another_message() -> None:
    reported = known().report([found("gpu0"), found("gpu1", "thermal")])
    assert texts(reported) == ["opened Low gpu0 1", "opened Low gpu1 1"]


def test_the_job_speaks_for_its_gpus_in_the_same_round() -> None:
    reported = known().report([found("gpu0"), found("gpu1"), found("job", rule="Fell")])
    assert texts(reported) == ["opened Fell job 3"]


def test_a_job_that_comes_later_takes_its_gpus_in_and_ends_what_was_told() -> None:
    incidents = known()
    incidents.report([found("gpu0"), found("gpu1")])
    ended, opened = incidents.report([found("job", rule="Fell", at_s=60)])
    assert (ended.kind, ended.fingerprint, ended.reason) == ("resolved", "Low gpu0", "taken_in")
    assert (opened.fingerprint, opened.count) == ("Fell job", 3)


def test_the_end_is_told_once_with_the_last_finding() -> None:
    incidents = known()
    incidents.report([found("gpu0"), found("gpu1")])
    assert incidents.report([found("gpu0", kind="resolved", at_s=60)]) == []
    (end,) = incidents.report([found("gpu1", kind="resolved", at_s=90)])
    assert (end.kind, end.fingerprint, end.at_s) == ("resolved", "Low gpu0", 90)
    assert texts(incidents.report([found("gpu0")])) == ["opened Low gpu0 1"]


def test_a_gpu_without_a_cause_belongs_to_what_is_told_of_its_job() -> None:
    incidents = known()
    incidents.report([found("job", "hang", rule="Fell")])
    assert incidents.report([found("gpu0", None, rule="Idle")]) == []
    assert texts(known().report([found("gpu0", None)])) == ["opened Low gpu0 1"]


def test_a_gpu_belongs_to_a_job_that_names_its_cause_second() -> None:
    incidents = known()
    job = found("job", "hardware_fault", rule="Fell")
    incidents.report([replace(job, causes=[*job.causes, RankedCause("hang", "hang", 0.5)])])
    assert incidents.report([found("gpu0", "hang")]) == []
    assert texts(incidents.report([found("gpu1", "thermal")])) == ["opened Low gpu1 1"]


def test_a_summary_belongs_to_the_incident_of_its_rule() -> None:
    incidents = known()
    reported = incidents.report([found("", None), found("gpu0"), found("gpu1")])
    assert texts(reported) == ["opened Low gpu0 3"]
    assert incidents.report([found("", None, kind="updated")]) == []
    alone = known().report([found("gpu0", rule="Other"), found("", None)])
    assert texts(alone) == ["opened Other gpu0 1", "opened Low  1"]


def test_an_end_of_something_from_before_a_restart_goes_through() -> None:
    (end,) = known().report([found("gpu0", kind="resolved")])
    assert end.fingerprint == "Low gpu0"


def test_a_gpu_without_a_job_stands_alone() -> None:
    lone = replace(found("gpu0"), entity=Entity("gpu", "gpu0", {}))
    other = replace(found("gpu1"), entity=Entity("gpu", "gpu1", {}))
    assert texts(known().report([lone, other])) == ["opened Low gpu0 1", "opened Low gpu1 1"]


def test_a_rule_on_trial_hides_no_finding_of_another() -> None:
    incidents = known()
    trial = replace(found("gpu0", rule="Trial"), shadow=True)
    assert texts(incidents.report([trial])) == ["opened Trial gpu0 1"]
    assert texts(incidents.report([found("gpu1")])) == ["opened Low gpu1 1"]
    node = replace(found("node", None, rule="TrialNode"), shadow=True)
    assert assigned(incidents.report([node])) == [
        ("opened", "TrialNode node", ""),
        ("updated", "Trial gpu0", "TrialNode node"),
    ]
    opened, *_ = incidents.report([found("job", "hang")])
    assert opened.incident == ""


# ---- nodes over jobs over GPUs ----


def assigned(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(one.kind, one.fingerprint, one.incident) for one in findings]


def test_a_node_covers_its_jobs_and_gpus_and_counts_them() -> None:
    parts = [found("gpu0", None), found("gpu1", "thermal"), found("job", "hang", rule="Fell")]
    reported = known().report([*parts, found("node", None, rule="Down")])
    assert assigned(reported) == [
        ("opened", "Down node", ""),
        ("opened", "Fell job", "Down node"),
        ("opened", "Low gpu1", "Down node"),
    ]
    assert [one.count for one in reported] == [4, 2, 1]


def test_a_job_covers_a_gpu_with_another_cause_unless_that_is_worse() -> None:
    incidents = known()
    incidents.report([found("job", "hang", rule="Fell")])
    worse = replace(found("gpu1", "thermal"), severity="error")
    other = incidents.report([found("gpu0", "thermal", rule="Hot"), worse])
    assert assigned(other) == [("opened", "Hot gpu0", "Fell job")]
    alone = known()
    alone.report([found("job", "hang", rule="Fell")])
    assert assigned(alone.report([worse])) == [("opened", "Low gpu1", "")]


def test_what_was_open_before_is_taken_in_by_the_wider_one() -> None:
    incidents = known()
    incidents.report([found("gpu0", "thermal")])
    opened, taken = incidents.report([found("node", None, rule="Down", at_s=60)])
    assert assigned([opened, taken]) == [
        ("opened", "Down node", ""),
        ("updated", "Low gpu0", "Down node"),
    ]
    assert (taken.reason, taken.at_s) == ("taken_in", 60)
    assert assigned(incidents.report([found("gpu0", "thermal", "resolved", at_s=90)])) == [
        ("resolved", "Low gpu0", "Down node")
    ]


def test_at_the_end_of_the_wider_one_another_covers_what_is_left() -> None:
    incidents = known()
    job, node = found("job", "hang", rule="Fell"), found("node", None, rule="Down")
    incidents.report([node, job, found("gpu0", "thermal")])
    reported = incidents.report([replace(node, kind="resolved", at_s=60)])
    assert assigned(reported) == [
        ("resolved", "Down node", ""),
        ("updated", "Low gpu0", "Fell job"),
    ]
    assert assigned(incidents.report([found("gpu1", "thermal", rule="Hot")])) == []


def test_a_node_covers_a_job_of_several_only_when_it_is_silent() -> None:
    job, busy = found("job", "hang", rule="Fell"), found("node", None, rule="Busy")
    silence = [Evidence("silent >= 120s", "silent", 130.0, 120.0)]
    for node, incident in ((busy, ""), (replace(busy, evidence=silence), "Busy node")):
        incidents = known(job={"node", "other"})
        _, of_job = incidents.report([node, job])
        assert of_job.incident == incident
    elsewhere = known(job={"other"}).report([replace(busy, evidence=silence), job])
    assert [one.incident for one in elsewhere] == ["", ""]


def test_a_node_that_was_open_before_a_restart_covers_what_comes_after() -> None:
    incidents = known()
    incidents.adopt([found("node", None, rule="Down"), found("gpu7")])
    assert assigned(incidents.report([found("gpu0")])) == [("opened", "Low gpu0", "Down node")]


def test_a_summary_is_covered_with_the_findings_of_its_rule() -> None:
    lone = [replace(one, entity=Entity("gpu", one.fingerprint, {"host.name": "node"}))
            for one in (found("gpu0", None), found("gpu1", None))]  # fmt: skip
    reported = known().report([found("", None), *lone, found("node", None, rule="Down")])
    assert assigned(reported)[-1] == ("opened", "Low ", "Down node")
