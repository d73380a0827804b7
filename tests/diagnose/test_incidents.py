"""One notification for each incident, and exactly one end for each that was reported."""

from dataclasses import replace

from otel_ofu.diagnose import Incidents
from otel_ofu.model import Entity, Finding, FindingChange, RankedCause
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


def texts(findings: list[Finding]) -> list[str]:
    return [f"{d.kind} {d.fingerprint} {d.count}" for d in findings]


def test_gpus_of_a_job_with_one_cause_are_one_message_with_their_number() -> None:
    reported = Incidents().report([found(f"gpu{n}") for n in range(8)])
    assert texts(reported) == ["opened Low gpu0 8"]


def test_the_numbers_of_a_message_are_those_of_all_of_its_gpus() -> None:
    facts = [{"ofu": 0.1, "gpus": 1.0, "gpu_hours_lost": 0.2, "began_s": 60.0},
             {"ofu": 0.3, "gpus": 1.0, "gpu_hours_lost": 0.1, "began_s": 30.0},
             {"gpus": 1.0}]  # fmt: skip
    each = [replace(found(f"gpu{n}"), facts=one) for n, one in enumerate(facts)]
    again = replace(found("gpu0", rule="Other"), facts=facts[0])
    incidents = Incidents()
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
    (one,) = Incidents().report([replace(found("gpu0"), facts={"ofu": 0.9, "gpus": 1.0}), job])
    assert (one.count, one.facts) == (2, {"ofu": 0.2, "gpus": 2.0})


def test_another_cause_is_another_message() -> None:
    reported = Incidents().report([found("gpu0"), found("gpu1", "thermal")])
    assert texts(reported) == ["opened Low gpu0 1", "opened Low gpu1 1"]


def test_the_job_speaks_for_its_gpus_in_the_same_round() -> None:
    reported = Incidents().report([found("gpu0"), found("gpu1"), found("job", rule="Fell")])
    assert texts(reported) == ["opened Fell job 3"]


def test_a_job_that_comes_later_takes_its_gpus_in_and_ends_what_was_told() -> None:
    incidents = Incidents()
    incidents.report([found("gpu0"), found("gpu1")])
    ended, opened = incidents.report([found("job", rule="Fell", at_s=60)])
    assert (ended.kind, ended.fingerprint, ended.reason) == ("resolved", "Low gpu0", "taken_in")
    assert (opened.fingerprint, opened.count) == ("Fell job", 3)


def test_the_end_is_told_once_with_the_last_finding() -> None:
    incidents = Incidents()
    incidents.report([found("gpu0"), found("gpu1")])
    assert incidents.report([found("gpu0", kind="resolved", at_s=60)]) == []
    (end,) = incidents.report([found("gpu1", kind="resolved", at_s=90)])
    assert (end.kind, end.fingerprint, end.at_s) == ("resolved", "Low gpu0", 90)
    assert texts(incidents.report([found("gpu0")])) == ["opened Low gpu0 1"]


def test_a_gpu_without_a_cause_belongs_to_what_is_told_of_its_job() -> None:
    incidents = Incidents()
    incidents.report([found("job", "hang", rule="Fell")])
    assert incidents.report([found("gpu0", None, rule="Idle")]) == []
    assert texts(Incidents().report([found("gpu0", None)])) == ["opened Low gpu0 1"]


def test_a_gpu_belongs_to_a_job_that_names_its_cause_second() -> None:
    incidents = Incidents()
    job = found("job", "hardware_fault", rule="Fell")
    incidents.report([replace(job, causes=[*job.causes, RankedCause("hang", "hang", 0.5)])])
    assert incidents.report([found("gpu0", "hang")]) == []
    assert texts(incidents.report([found("gpu1", "thermal")])) == ["opened Low gpu1 1"]


def test_a_summary_belongs_to_the_incident_of_its_rule() -> None:
    incidents = Incidents()
    reported = incidents.report([found("", None), found("gpu0"), found("gpu1")])
    assert texts(reported) == ["opened Low gpu0 3"]
    assert incidents.report([found("", None, kind="updated")]) == []
    alone = Incidents().report([found("gpu0", rule="Other"), found("", None)])
    assert texts(alone) == ["opened Other gpu0 1", "opened Low  1"]


def test_an_end_of_something_from_before_a_restart_goes_through() -> None:
    (end,) = Incidents().report([found("gpu0", kind="resolved")])
    assert end.fingerprint == "Low gpu0"


def test_a_gpu_without_a_job_stands_alone() -> None:
    lone = replace(found("gpu0"), entity=Entity("gpu", "gpu0", {}))
    other = replace(found("gpu1"), entity=Entity("gpu", "gpu1", {}))
    assert texts(Incidents().report([lone, other])) == ["opened Low gpu0 1", "opened Low gpu1 1"]
