"""Scores of causes: for, against, unknown, flags, what explains what."""

import pytest
from msgspec.structs import replace

from tests.diagnose.scene import Scene, cause, causes, flat

LOW = 'when: "avg(tensor_active, 5m) < 20%", weight: 1'
BUSY = 'when: "avg(dram_active, 5m) > 50%", weight: 0.8'
NOT_BUSY = 'when: "avg(dram_active, 5m) > 50%", weight: 0.8, speaks: against'
FLAG = "flags: [CUDA_LAUNCH_BLOCKING, NCCL_DEBUG], weight: 1"


def scores(scene: Scene, name: str = "gpu0") -> dict[str, float]:
    return {one.id: one.score for one in scene.diagnose(name).causes}


def test_all_evidence_that_holds_gives_the_prior() -> None:
    scene = Scene(
        causes(cause("memory", LOW, BUSY, severity="S2")),
        {("gpu0", "tensor_active"): flat(0.1), ("gpu0", "dram_active"): flat(0.8)},
    )
    assert scores(scene) == {"memory": pytest.approx(0.85)}


def test_evidence_that_fails_takes_its_weight() -> None:
    scene = Scene(
        causes(cause("memory", 'when: "avg(tensor_active, 5m) < 20%", weight: 0.9', BUSY)),
        {("gpu0", "tensor_active"): flat(0.6), ("gpu0", "dram_active"): flat(0.8)},
    )
    assert scores(scene) == {}
    mild = 'when: "avg(tensor_active, 5m) < 20%", weight: 0.4'
    scene = Scene(
        causes(cause("memory", mild, BUSY)),
        {("gpu0", "tensor_active"): flat(0.6), ("gpu0", "dram_active"): flat(0.8)},
    )
    assert scores(scene) == {"memory": pytest.approx(0.6)}


def test_a_value_just_off_the_mark_counts_for_something() -> None:
    scene = Scene(causes(cause("low", LOW)), {("gpu0", "tensor_active"): flat(0.21)})
    assert scores(scene) == {"low": pytest.approx(0.5, abs=0.01)}


def test_what_speaks_against_is_told_and_counts() -> None:
    scene = Scene(
        causes(cause("wait", LOW, NOT_BUSY)),
        {("gpu0", "tensor_active"): flat(0.1), ("gpu0", "dram_active"): flat(0.8)},
    )
    assert scores(scene) == {}
    scene = Scene(
        causes(cause("wait", LOW, NOT_BUSY.replace("0.8", "0.5"))),
        {("gpu0", "tensor_active"): flat(0.1), ("gpu0", "dram_active"): flat(0.8)},
    )
    (one,) = scene.diagnose("gpu0").causes
    assert one.score == pytest.approx(0.5)
    assert one.against == ("avg(dram_active, 5m) = 80% (> 50%)",)


def test_what_could_not_be_read_is_listed_and_is_neither_for_nor_against() -> None:
    text = causes(cause("memory", LOW, BUSY))
    dark = Scene(text, {("gpu0", "tensor_active"): flat(0.1)})
    (one,) = dark.diagnose("gpu0").causes
    assert one.unchecked == ("avg(dram_active, 5m) > 50%",)
    assert one.against == ()
    absent = {("gpu0", "tensor_active"): flat(0.1), ("gpu0", "dram_active"): flat(0.0)}
    assert 0.5 < one.score < 1
    assert scores(Scene(text, absent)) == {}


def test_a_flag_counts_when_a_counter_agrees() -> None:
    series = {("gpu0", "tensor_active"): flat(0.1), ("gpu0", "flag:NCCL_DEBUG"): flat(1)}
    (one,) = Scene(causes(cause("flagged", FLAG, LOW)), series).diagnose("gpu0").causes
    assert one.score == pytest.approx(1)
    assert "NCCL_DEBUG is set" in one.evidence
    assert not any("CUDA_LAUNCH_BLOCKING" in line for line in one.evidence)


def test_a_flag_without_a_counter_that_agrees_is_told_as_such_and_accuses_nobody() -> None:
    text = causes(cause("flagged", FLAG, LOW), cause("other", BUSY))
    series = {
        ("gpu0", "tensor_active"): flat(0.6),
        ("gpu0", "dram_active"): flat(0.8),
        ("gpu0", "flag:NCCL_DEBUG"): flat(1),
    }
    other, flagged = Scene(text, series).diagnose("gpu0").causes
    assert (other.id, flagged.id) == ("other", "flagged")
    assert "flag present, counters do not agree" in flagged.against
    assert flagged.score < 0.01


def test_a_flag_counts_alone_where_no_counter_could_be_read() -> None:
    series = {("gpu0", "ofu"): flat(0.1), ("gpu0", "flag:NCCL_DEBUG"): flat(1)}
    scene = Scene(causes(cause("flagged", FLAG, LOW.replace("weight: 1", "weight: 0.5"))), series)
    assert scores(scene)["flagged"] == pytest.approx(0.8)


def test_flags_that_could_not_be_read_are_named_as_unchecked() -> None:
    scene = Scene(causes(cause("flagged", FLAG, LOW)), {("gpu0", "tensor_active"): flat(0.1)})
    (one,) = scene.diagnose("gpu0").causes
    assert one.unchecked == ("flags of the processes (CUDA_LAUNCH_BLOCKING, NCCL_DEBUG)",)


def test_what_follows_from_another_cause_counts_for_half() -> None:
    text = causes(
        cause("symptom", LOW), cause("origin", LOW, BUSY, explains="[symptom]", severity="S2")
    )
    series = {("gpu0", "tensor_active"): flat(0.1), ("gpu0", "dram_active"): flat(0.8)}
    origin, symptom = Scene(text, series).diagnose("gpu0").causes
    assert (origin.id, symptom.id) == ("origin", "symptom")
    assert symptom.score == pytest.approx(0.5)
    assert symptom.against == ("follows from origin happened",)


def test_equal_scores_stand_in_the_order_of_the_file_and_at_most_three_are_told() -> None:
    text = causes(*(cause(name, LOW) for name in ("d", "a", "c", "b")))
    scene = Scene(text, {("gpu0", "tensor_active"): flat(0.1)})
    assert [one.id for one in scene.diagnose("gpu0").causes] == ["d", "a", "c"]


def test_a_cause_that_the_rule_lists_goes_before_one_that_it_does_not() -> None:
    text = causes(cause("first", LOW), cause("second", LOW))
    scene = Scene(text, {("gpu0", "tensor_active"): flat(0.1)})
    assert [one.id for one in scene.diagnose("gpu0", "second").causes] == ["second", "first"]


def test_no_known_cause_is_an_answer_with_what_to_profile_next() -> None:
    scene = Scene(causes(cause("low", LOW)), {("gpu0", "tensor_active"): flat(0.6)})
    told = scene.diagnose("gpu0")
    assert told.causes == ()
    assert told.annotations["cause"] == "no known cause fits"
    assert "nsys profile" in told.annotations["profile_next"]


def test_two_causes_at_once_are_both_named() -> None:
    text = causes(cause("low", LOW), cause("busy", BUSY))
    series = {("gpu0", "tensor_active"): flat(0.1), ("gpu0", "dram_active"): flat(0.8)}
    told = Scene(text, series).diagnose("gpu0")
    assert told.annotations["cause"] == ("low happened (low, 1.00); and busy happened (busy, 1.00)")


def test_a_job_is_judged_by_all_of_its_gpus_or_by_its_worst_as_the_cause_says() -> None:
    text = causes(cause("everywhere", LOW), cause("somewhere", LOW, spread="some"))
    series = {(f"gpu{n}", "tensor_active"): flat(0.1 if n == 2 else 0.6) for n in range(4)}
    series[("job", "job_ofu")] = flat(0.3)
    (one,) = Scene(text, series).diagnose("job").causes
    assert (one.id, one.score) == ("somewhere", 1.0)
    assert one.evidence[0] == "on 1 of 4 GPUs; the numbers are those of gpu2"
    assert "avg(tensor_active, 5m) = 10% (< 20%)" in one.evidence


def test_conditions_of_a_job_and_a_node_count_for_its_gpus() -> None:
    text = causes(
        cause("both", 'when: "avg(mfu, 5m) > 50%", weight: 1, each: job',
              'when: "avg(cpu_user, 5m) > 50%", weight: 1, each: node')
    )  # fmt: skip
    series = {
        ("gpu0", "ofu"): flat(0.1),
        ("job", "mfu"): flat(0.6),
        ("node", "cpu_user"): flat(0.9),
    }
    (one,) = Scene(text, series).diagnose("gpu0").causes
    assert one.score == 1
    assert one.evidence == ("avg(mfu, 5m) = 60% (> 50%)", "avg(cpu_user, 5m) = 90% (> 50%)")


def test_a_job_without_gpus_is_judged_by_what_is_known_of_itself() -> None:
    text = causes(cause("counted", 'when: "avg(mfu, 5m) > 50%", weight: 1, each: job', LOW))
    (one,) = Scene(text, {("job", "mfu"): flat(0.6)}).diagnose("job").causes
    assert one.score == pytest.approx(0.5)
    assert one.unchecked == ("avg(tensor_active, 5m) < 20% (no such entity)",)


def test_a_cause_that_is_meant_to_be_makes_the_finding_information() -> None:
    series = {("gpu0", "tensor_active"): flat(0.1)}
    meant = Scene(causes(cause("phase", LOW, legitimate="true")), series).diagnose("gpu0")
    assert meant.severity == "info"
    assert "legitimate" in meant.annotations
    assert Scene(causes(cause("phase", LOW)), series).diagnose("gpu0").severity == "warning"


def test_an_end_keeps_its_causes_and_says_how_long_it_lasted() -> None:
    scene = Scene(causes(cause("low", LOW)), {("gpu0", "tensor_active"): flat(0.1)})
    opened = scene.diagnose("gpu0")
    ended = scene.diagnoser.diagnose(replace(opened, kind="resolved"))
    assert [one.id for one in ended.causes] == ["low"]
    assert ended.facts == {**opened.facts, "lasted_s": 600.0}


def test_an_entity_that_the_store_no_longer_knows_is_reported_without_causes() -> None:
    scene = Scene(causes(cause("low", LOW)), {("gpu0", "tensor_active"): flat(0.1)})
    found = scene.diagnose("gpu7")
    assert found.causes == ()
    assert found.summary == "Low on gpu7"


def test_an_attribute_of_the_gpu_is_evidence_too() -> None:
    text = causes(cause("sliced", "has: ofu.mig.profile, weight: 1"), cause("low", LOW))
    scene = Scene(text, {("gpu0", "tensor_active"): flat(0.1)})
    assert scores(scene) == {"low": 1}
    told = Scene(
        causes(cause("sliced", "has: ofu.gpu.sku, weight: 1")), {("gpu0", "ofu"): flat(0.1)}
    ).diagnose("gpu0")
    assert told.causes[0].evidence == ("the GPU has ofu.gpu.sku",)
