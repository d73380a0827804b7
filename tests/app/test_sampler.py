"""What a round makes of a source's answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pytest

from otel_ofu.app.sampler import Sampler
from otel_ofu.app.source_reader import ReadResult
from otel_ofu.model import Attribute, Device, Entity, Gap, GapReason, Observation, Reading, Window

NOT_SUPPORTED = Gap(GapReason.NOT_SUPPORTED, "no such sensor")


def reading(now_s: float) -> Reading:
    return Reading(
        Device("GPU-1"),
        Window(now_s - 1, now_s),
        "fake",
        {"power": 100.0, "sm_clock": 1e9},
        {"mem_temperature": NOT_SUPPORTED},
    )


class ScriptedReader:
    name = "fake"

    def __init__(self, answers: Sequence[ReadResult]) -> None:
        self.answers = list(answers)

    def read(self, now_s: float, budget_s: float) -> ReadResult:
        return self.answers.pop(0)

    def close(self, deadline_s: float) -> None:
        self.answers.clear()


class Counts:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def sampled(self, source: str, seconds: float) -> None:
        self.lines.append((source, "sampled"))

    def missed(self, source: str, reason: str) -> None:
        self.lines.append((source, reason))


class PassOn:
    """Derives nothing: shows the readings as they came, and whose parent was handed over."""

    def __init__(self) -> None:
        self.parents: list[str] = []
        self.kept: list[str] = []

    def derive(
        self,
        reading: Reading,
        parent: Reading | None = None,
        owner: Mapping[str, Attribute] | None = None,
    ) -> Observation:
        self.parents.append(parent.device.uuid if parent else "")
        entity = Entity("gpu", reading.device.uuid, owner or {})
        return Observation(entity, reading.window, reading.values, reading.gaps)

    def retain(self, entity_ids: Collection[str]) -> None:
        self.kept = list(entity_ids)


def run(answers: Sequence[ReadResult]) -> tuple[list[Sequence[Observation]], Counts]:
    emitted: list[Sequence[Observation]] = []
    counts = Counts()
    sampler = Sampler(ScriptedReader(answers), PassOn(), emitted.append, budget_s=1.0, meter=counts)
    for round_number in range(len(answers)):
        sampler.tick(10.0 * (round_number + 1))
    return emitted, counts


def test_readings_are_derived_and_emitted() -> None:
    emitted, counts = run([ReadResult([reading(10.0)])])
    assert emitted[0][0].values == {"power": 100.0, "sm_clock": 1e9}
    assert counts.lines == [("fake", "sampled")]


def test_a_late_source_turns_the_values_of_its_devices_into_gaps_with_its_words() -> None:
    emitted, counts = run(
        [ReadResult([reading(10.0)]), ReadResult(trouble="late", message="no answer")]
    )
    gap = Gap(GapReason.FAILED, "no answer")
    (observation,) = emitted[1]
    assert observation.values == {}
    assert observation.gaps == {
        "power": gap,
        "sm_clock": gap,
        "mem_temperature": NOT_SUPPORTED,
    }
    assert observation.window == Window(10.0, 20.0)
    assert counts.lines[1] == ("fake", "late")


def test_gaps_last_as_long_as_the_trouble() -> None:
    trouble = ReadResult(trouble="failed", message="driver gone")
    emitted, _ = run([ReadResult([reading(10.0)]), trouble, trouble, ReadResult([reading(40.0)])])
    assert [len(o[0].values) for o in emitted] == [2, 0, 0, 2]


def test_a_device_that_a_good_round_does_not_have_is_gone() -> None:
    emitted, _ = run([ReadResult([reading(10.0)]), ReadResult([])])
    assert emitted[1] == []


def test_each_trouble_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    trouble = ReadResult(trouble="failed", message="driver gone")
    other = ReadResult(trouble="failed", message="no permission")
    run([trouble, trouble, other, ReadResult([reading(40.0)]), ReadResult([reading(50.0)])])
    assert [record.message for record in caplog.records] == [
        "fake: driver gone; its values are gaps",
        "fake: no permission; its values are gaps",
        "fake: answers again",
    ]


def test_a_mig_instance_is_derived_with_the_reading_of_its_gpu() -> None:
    instance = Reading(
        Device("MIG-1", parent="GPU-1"), Window(9, 10), "fake", {"tensor_active": 0.5}
    )
    deriver = PassOn()
    sampler = Sampler(
        ScriptedReader([ReadResult([instance, reading(10.0)])]),
        deriver,
        lambda _observations: None,
        budget_s=1.0,
        meter=Counts(),
    )
    sampler.tick(10.0)
    assert deriver.parents == ["GPU-1", ""]
    assert deriver.kept == ["MIG-1", "GPU-1"]


@dataclass(frozen=True)
class Row:
    attributes: Mapping[str, str]
    share: float


def test_a_gpu_with_two_owners_is_one_observation_for_each_with_its_share() -> None:
    emitted: list[Sequence[Observation]] = []
    sampler = Sampler(
        ScriptedReader([ReadResult([reading(10.0)])] * 2),
        PassOn(),
        emitted.append,
        budget_s=1.0,
        meter=Counts(),
    )
    owners = {"GPU-1": [Row({"ofu.job.id": "a"}, 0.5), Row({"ofu.job.id": "b"}, 0.5)]}
    sampler.owners = lambda now_s: owners if now_s < 15 else {}
    sampler.tick(10.0)
    sampler.tick(20.0)
    assert [o.entity.attributes["ofu.job.id"] for o in emitted[0]] == ["a", "b"]
    assert [o.values["owner_share"] for o in emitted[0]] == [0.5, 0.5]
    assert [dict(o.entity.attributes) for o in emitted[1]] == [{}]
    assert "owner_share" not in emitted[1][0].values
