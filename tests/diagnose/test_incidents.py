"""One message for each incident, and exactly one end for each that was told."""

from dataclasses import replace

from otel_ofu.diagnose import Incidents, Reporter
from otel_ofu.model import Diagnosis, Entity, FindingChange, RankedCause
from otel_ofu.rules.lifecycle.change import Change
from tests.diagnose.scene import entity


def told(
    name: str,
    cause: str | None = "debug_flag",
    kind: FindingChange = "opened",
    rule: str = "Low",
    at_s: float = 0.0,
) -> Diagnosis:
    whose: Entity | None = entity(name) if name else None
    causes = [RankedCause(cause, cause, 0.9)] if cause else []
    return Diagnosis(
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


def words(diagnoses: list[Diagnosis]) -> list[str]:
    return [f"{d.kind} {d.fingerprint} {d.count}" for d in diagnoses]


def test_gpus_of_a_job_with_one_cause_are_one_message_with_their_number() -> None:
    found = Incidents().tell([told(f"gpu{n}") for n in range(8)])
    assert words(found) == ["opened Low gpu0 8"]


def test_the_numbers_of_a_message_are_those_of_all_of_its_gpus() -> None:
    facts = [{"ofu": 0.1, "gpus": 1.0, "gpu_hours_lost": 0.2, "began_s": 60.0},
             {"ofu": 0.3, "gpus": 1.0, "gpu_hours_lost": 0.1, "began_s": 30.0},
             {"gpus": 1.0}]  # fmt: skip
    each = [replace(told(f"gpu{n}"), facts=one) for n, one in enumerate(facts)]
    again = replace(told("gpu0", rule="Other"), facts=facts[0])
    incidents = Incidents()
    (found,) = incidents.tell([*each, again])
    assert found.count == 4
    assert {name: round(value, 9) for name, value in found.facts.items()} == {
        "ofu": 0.2, "gpus": 3.0, "gpu_hours_lost": 0.3, "began_s": 30.0
    }  # fmt: skip
    ends = [replace(one, kind="resolved") for one in (*each, again)]
    (end,) = incidents.tell(ends)
    assert end.facts == found.facts


def test_the_numbers_of_a_job_are_its_own() -> None:
    job = replace(told("job", rule="Fell"), facts={"ofu": 0.2, "gpus": 2.0})
    (found,) = Incidents().tell([replace(told("gpu0"), facts={"ofu": 0.9, "gpus": 1.0}), job])
    assert (found.count, found.facts) == (2, {"ofu": 0.2, "gpus": 2.0})


def test_another_cause_is_another_message() -> None:
    found = Incidents().tell([told("gpu0"), told("gpu1", "thermal")])
    assert words(found) == ["opened Low gpu0 1", "opened Low gpu1 1"]


def test_the_job_speaks_for_its_gpus_in_the_same_round() -> None:
    found = Incidents().tell([told("gpu0"), told("gpu1"), told("job", rule="Fell")])
    assert words(found) == ["opened Fell job 3"]


def test_a_job_that_comes_later_takes_its_gpus_in_and_ends_what_was_told() -> None:
    incidents = Incidents()
    incidents.tell([told("gpu0"), told("gpu1")])
    ended, opened = incidents.tell([told("job", rule="Fell", at_s=60)])
    assert (ended.kind, ended.fingerprint, ended.reason) == ("resolved", "Low gpu0", "taken_in")
    assert (opened.fingerprint, opened.count) == ("Fell job", 3)


def test_the_end_is_told_once_with_the_last_finding() -> None:
    incidents = Incidents()
    incidents.tell([told("gpu0"), told("gpu1")])
    assert incidents.tell([told("gpu0", kind="resolved", at_s=60)]) == []
    (end,) = incidents.tell([told("gpu1", kind="resolved", at_s=90)])
    assert (end.kind, end.fingerprint, end.at_s) == ("resolved", "Low gpu0", 90)
    assert words(incidents.tell([told("gpu0")])) == ["opened Low gpu0 1"]


def test_a_gpu_without_a_cause_belongs_to_what_is_told_of_its_job() -> None:
    incidents = Incidents()
    incidents.tell([told("job", "hang", rule="Fell")])
    assert incidents.tell([told("gpu0", None, rule="Idle")]) == []
    assert words(Incidents().tell([told("gpu0", None)])) == ["opened Low gpu0 1"]


def test_a_gpu_belongs_to_a_job_that_names_its_cause_second() -> None:
    incidents = Incidents()
    job = told("job", "hardware_fault", rule="Fell")
    incidents.tell([replace(job, causes=[*job.causes, RankedCause("hang", "hang", 0.5)])])
    assert incidents.tell([told("gpu0", "hang")]) == []
    assert words(incidents.tell([told("gpu1", "thermal")])) == ["opened Low gpu1 1"]


def test_a_summary_belongs_to_the_incident_of_its_rule() -> None:
    incidents = Incidents()
    found = incidents.tell([told("", None), told("gpu0"), told("gpu1")])
    assert words(found) == ["opened Low gpu0 3"]
    assert incidents.tell([told("", None, kind="updated")]) == []
    alone = Incidents().tell([told("gpu0", rule="Other"), told("", None)])
    assert words(alone) == ["opened Other gpu0 1", "opened Low  1"]


def test_an_end_of_something_from_before_a_restart_goes_through() -> None:
    (end,) = Incidents().tell([told("gpu0", kind="resolved")])
    assert end.fingerprint == "Low gpu0"


def test_a_gpu_without_a_job_stands_alone() -> None:
    lone = replace(told("gpu0"), entity=Entity("gpu", "gpu0", {}))
    other = replace(told("gpu1"), entity=Entity("gpu", "gpu1", {}))
    assert words(Incidents().tell([lone, other])) == ["opened Low gpu0 1", "opened Low gpu1 1"]


def test_the_reporter_tells_a_round_at_once_and_only_once() -> None:
    heard: list[Diagnosis] = []
    reporter = Reporter(
        lambda change: told(change.entity.id if change.entity else ""), heard.append
    )
    for name in ("gpu0", "gpu1"):
        whose = entity(name)
        reporter.take(Change("opened", "Low", "gpu", whose, f"Low {name}", 0.0, 0.0, 0.0))
    assert heard == []
    assert words(list(reporter.flush())) == words(heard) == ["opened Low gpu0 2"]
    assert reporter.flush() == []
