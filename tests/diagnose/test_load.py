"""The file of causes: strict, and every mistake with its place."""

from pathlib import Path

import pytest

from otel_ofu.diagnose import load_causes
from otel_ofu.files.installed import shipped
from otel_ofu.model.errors import ConfigError
from tests.diagnose.scene import REGISTRY, book, cause

GOOD = 'when: "ofu < 20%", weight: 1'


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        book(text)
    return [str(problem) for problem in caught.value.problems]


def one(*evidence: str, **keys: str) -> str:
    return "causes:\n" + cause("low", *evidence, **keys)


def test_a_condition_that_makes_no_sense_is_told_at_its_character() -> None:
    (told,) = mistakes(one('when: "ofu < tempereture", weight: 1'))
    assert told.startswith("causes.yaml:6:23: unknown metric tempereture")
    assert "temperature" in told


def test_units_have_to_meet() -> None:
    assert "Hz" in mistakes(one('when: "sm_clock < 20%", weight: 1'))[0]


def test_all_mistakes_of_a_file_are_told_in_one_go() -> None:
    text = (
        "priors: {S4: 1.5}\ngroups: {low: [x]}\ncauses:\n"
        + cause("low", 'when: "ofu < 20%", weight: 2', explains="[nobody]")
        + cause("low", GOOD)
    )
    told = mistakes(text)
    assert [line.split(": ", 1)[1] for line in told] == [
        "a prior is above 0 and at most 1",
        "'low' is a cause already",
        "unknown cause 'x'",
        "unknown cause 'nobody'",
        "a weight is above 0 and at most 1",
        "a cause 'low' is already there",
    ]


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ("weight: 1", "exactly one of when, flags and has"),
        ('when: "ofu < 1%", has: hw.id, weight: 1', "exactly one of when, flags and has"),
        ("has: hw.idd, weight: 1", "unknown attribute 'hw.idd'; did you mean hw.id"),
        ("flags: [A-B], weight: 1", "flag takes one name"),
        (f"{GOOD}, speaks: against", "nothing speaks for this cause"),
        (f"{GOOD}, spaeks: against", "unknown key 'spaeks'; did you mean speaks?"),
        ('when: "mfu < 1%", weight: 1', "mfu is a metric of a job"),
    ],
)
def test_evidence_that_cannot_be_is_refused(evidence: str, words: str) -> None:
    assert words in mistakes(one(evidence))[0]


def test_an_empty_file_says_what_is_missing() -> None:
    assert "the key 'causes' is missing" in mistakes("")[0]


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_causes(tmp_path / "causes.yaml", REGISTRY)


def test_a_group_stands_for_its_causes() -> None:
    text = "groups: {held: [low, slow]}\ncauses:\n" + cause("low", GOOD) + cause("slow", GOOD)
    found = book(text)
    assert found.names == {"held", "low", "slow"}
    assert found.expand(["held", "other"]) == {"low", "slow", "other"}


def test_flags_of_causes_are_those_that_the_scanner_knows() -> None:
    shipped_causes = load_causes(shipped("rules") / "causes.yaml", REGISTRY)
    text = (shipped("rules") / "flags.yaml").read_text("utf-8")
    for name in shipped_causes.flags:
        assert f"- id: {name}\n" in text


def test_every_shipped_cause_says_what_tells_it_apart_and_what_to_do() -> None:
    for each in load_causes(shipped("rules") / "causes.yaml", REGISTRY).causes:
        assert each.remark, each.id
        assert each.next_steps, each.id
        assert sum(clue.weight for clue in each.evidence if clue.speaks == "for") >= 1, each.id


def test_a_step_about_flags_needs_evidence_that_is_a_flag() -> None:
    step = '["Look", "unset {flags}"]'
    (told,) = mistakes(one(GOOD, next=step))
    assert told.endswith("{flags}, but no evidence is a flag")
    book(one('when: "ofu < 20% or flag(NCCL_DEBUG)", weight: 1', next=step))
    book(one(GOOD, "flags: [NCCL_DEBUG], weight: 1", next=step))
