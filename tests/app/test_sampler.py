"""What a round makes of a source's answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from otel_ofu.app.sampler import Sampler, no_ofu
from otel_ofu.app.shared_gpus import SHARE
from otel_ofu.app.source_reader import ReadResult
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.derive.jobs import JobAggregator
from otel_ofu.model import (
    Attribute,
    Device,
    Entity,
    Gap,
    GapReason,
    Observation,
    Owner,
    Reading,
    Trouble,
    Window,
)
from tests.sources.scrape.golden import PAGES
from tests.sources.scrape.golden import read as page

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
    """One result a round, of the source `fake`; several where it is a list."""

    def __init__(self, answers: Sequence[ReadResult | Sequence[ReadResult]]) -> None:
        self.answers = list(answers)

    def read(self, now_s: float, budget_s: float) -> Sequence[ReadResult]:
        answer = self.answers.pop(0)
        return [replace(answer, source="fake")] if isinstance(answer, ReadResult) else answer

    def close(self, deadline_s: float) -> None:
        self.answers.clear()


class Counts:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.troubles: list[tuple[str, str, str]] = []
        self.up: list[dict[str, bool]] = []
        self.costs: dict[str, dict[str, float]] = {}

    def sampled(self, source: str, seconds: float) -> None:
        self.lines.append((source, "sampled"))

    def cost(self, source: str, costs: Mapping[str, float]) -> None:
        self.costs[source] = dict(costs)

    def missed(self, source: str, reason: str) -> None:
        self.lines.append((source, reason))

    def troubled(self, source: str, target: str, reason: str) -> None:
        self.troubles.append((source, target, reason))

    def answered(self, source: str, targets: Mapping[str, bool]) -> None:
        self.up.append(dict(targets))


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


def run(
    answers: Sequence[ReadResult | Sequence[ReadResult]],
) -> tuple[list[Sequence[Observation]], Counts]:
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
        [ReadResult([reading(10.0)]), ReadResult(failure="late", message="no answer")]
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
    trouble = ReadResult(failure="failed", message="driver gone")
    emitted, _ = run([ReadResult([reading(10.0)]), trouble, trouble, ReadResult([reading(40.0)])])
    assert [len(o[0].values) for o in emitted] == [2, 0, 0, 2]


def test_a_source_that_fails_leaves_the_devices_of_the_others_alone() -> None:
    other = replace(reading(10.0), device=Device("GPU-2"))
    good = [ReadResult([reading(10.0)], source="a"), ReadResult([other], source="b")]
    failed = ReadResult(failure="failed", message="engine gone", source="a")
    emitted, counts = run([good, [failed, ReadResult([other], source="b")]])
    assert [(o.entity.id, len(o.values)) for o in emitted[1]] == [("GPU-1", 0), ("GPU-2", 2)]
    assert counts.lines[2:] == [("a", "failed"), ("b", "sampled")]


def test_a_device_that_another_source_took_over_is_there_once() -> None:
    failed = ReadResult(failure="failed", message="engine gone", source="a")
    good = ReadResult([reading(10.0)], source="a")
    emitted, counts = run(
        [[good], [failed, replace(good, source="b")], [replace(good, source="b")]]
    )
    assert [[len(o.values) for o in seen] for seen in emitted] == [[2], [2], [2]]
    assert counts.up[-2:] == [{}, {"b": True}]


def test_a_device_that_a_good_round_does_not_have_is_gone() -> None:
    emitted, _ = run([ReadResult([reading(10.0)]), ReadResult([])])
    assert emitted[1] == []


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records]


def test_a_source_that_fails_is_logged_once_a_cause_and_once_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    trouble = ReadResult(failure="failed", message="driver gone for 10 s")
    again = ReadResult(failure="failed", message="driver gone for 20 s")
    good = [ReadResult([reading(10.0 * n)]) for n in range(3, 6)]
    backing_off = replace(again, failure="unavailable")
    _, counts = run([ReadResult([reading(1.0)]), trouble, again, backing_off, *good])
    assert messages(caplog) == [
        "fake: driver gone for 10 s; its values are gaps",
        "resolved: fake: driver gone for 10 s",
    ]
    assert counts.troubles == [("fake", "fake", "failed")] * 3
    assert counts.up[1:] == [{"fake": False}] * 3 + [{"fake": True}] * 3


def test_another_cause_does_not_end_the_one_before(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    other = ReadResult(failure="failed", message="no permission")
    run([ReadResult(failure="failed", message="driver gone"), *[other] * 5])
    assert [line.partition(";")[0] for line in messages(caplog)] == [
        "fake: driver gone",
        "fake: no permission",
    ]


def test_an_engine_that_answers_with_gaps_alone_is_not_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    gap = Gap(GapReason.FAILED, "host engine did not answer for 8 s")
    frozen = Reading(Device("GPU-1"), Window(9, 10), "fake", {}, {"power": gap})
    late = [ReadResult(failure="late", message=f"no answer for {n}.0 s") for n in (8, 18)]
    _, counts = run([*late, *[ReadResult([frozen])] * 4])
    assert counts.up == [{"fake": False}] * 6
    assert messages(caplog) == [
        "fake: no answer for 8.0 s",
        "fake: host engine did not answer for 8 s",
    ]


def test_a_page_that_was_not_refreshed_is_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    gap = Gap(GapReason.NOT_READY, "not refreshed since the last read")
    same = Reading(Device("GPU-1"), Window(9, 10), "fake", {}, {"power": gap})
    _, counts = run([ReadResult([reading(1.0)]), ReadResult([same]), ReadResult([same])])
    assert counts.up == [{"fake": True}] * 3
    assert messages(caplog) == []


REFUSED = Trouble("http://b", "failed", "connection refused")


def test_a_part_that_failed_is_counted_and_logged_beside_the_readings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    partly = ReadResult([reading(10.0)], troubles=[REFUSED], targets={"a": True, "http://b": False})
    _, counts = run([partly, partly])
    assert messages(caplog) == ["fake: http://b: connection refused"]
    assert counts.troubles == [("fake", "http://b", "failed")] * 2
    assert counts.up == [{"a": True, "http://b": False}] * 2


def test_a_source_whose_parts_all_failed_is_logged_by_them_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    down = {"http://b": False}
    run([ReadResult(failure="failed", message="x", troubles=[REFUSED], targets=down)])
    assert messages(caplog) == ["fake: http://b: connection refused"]


def test_targets_are_down_while_their_source_hangs() -> None:
    late = ReadResult(failure="late", message="no answer")
    _, counts = run([ReadResult([reading(10.0)], targets={"a": True, "b": True}), late])
    assert counts.up[-1] == {"a": False, "b": False}


def without_ofu(reason: GapReason) -> Observation:
    gap = Gap(reason, "nvmlGpmSampleGet: Not Supported (3)")
    entity = Entity("gpu", "GPU-1", {"hw.id": "GPU-1"})
    return Observation(entity, Window(9, 10), {}, {"tensor_active": gap, "ofu": gap})


def test_a_gpu_without_ofu_names_the_counter_and_the_driver_s_words() -> None:
    assert no_ofu([without_ofu(GapReason.NOT_SUPPORTED)]) == [
        Trouble(
            "GPU-1",
            "not_supported",
            "no OFU: tensor_active: not supported: nvmlGpmSampleGet: Not Supported (3)",
        )
    ]


def test_a_first_window_and_a_gpu_in_mig_mode_are_no_trouble() -> None:
    instance = Entity("gpu", "MIG-1", {"hw.id": "MIG-1", "hw.parent": "GPU-1"})
    seen = Observation(instance, Window(9, 10), {"ofu": 0.5}, {})
    assert no_ofu([without_ofu(GapReason.NOT_READY)]) == []
    assert no_ofu([without_ofu(GapReason.NOT_SUPPORTED), seen]) == []


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


def observed(readings: Sequence[Reading]) -> list[Observation]:
    """One round of a node whose owners only the source knows."""
    emitted: list[Observation] = []
    sampler = Sampler(
        ScriptedReader([ReadResult(readings)]),
        Deriver(DeriverSettings()),
        emitted.extend,
        budget_s=1.0,
        meter=Counts(),
    )
    sampler.tick(readings[0].window.end_s)
    return emitted


def test_a_page_gives_a_gpu_to_both_of_its_jobs_a_half_each() -> None:
    seen = observed(page((PAGES / "case_two_jobs.prom").read_text("utf-8")).readings)
    shares = {o.entity.id: o.values[SHARE] for o in seen if SHARE in o.values}
    assert [len(o.entity.id.partition("/")[2]) for o in seen] == [4, 4, 4]
    assert list(shares.values()) == [0.5, 0.5]
    jobs = JobAggregator().aggregate(seen, shares)
    assert {o.entity.id: o.values["job_gpu_count"] for o in jobs} == {"job1": 1.5, "job2": 0.5}
    assert [o.values["job_ofu"] for o in jobs] == pytest.approx([0.4, 0.4])


def test_pods_that_share_a_gpu_are_jobs_under_their_names() -> None:
    seen = observed(page((PAGES / "dcgm_shared.prom").read_text("utf-8")).readings)
    pods = {o.entity.id: o.entity.attributes for o in seen if "k8s.pod.name" in o.entity.attributes}
    assert list(pods) == ["GPU-03/ml/a", "GPU-03/ml/b"]
    assert {about["ofu.job.source"] for about in pods.values()} == {"scrape"}


def test_an_owner_has_the_part_that_the_source_states() -> None:
    owners = (Owner({"ofu.job.id": "a"}, 0.75), Owner({"ofu.job.id": "b"}))
    seen = observed([replace(reading(10.0), owners=owners)])
    assert [o.values[SHARE] for o in seen] == [0.75, 0.25]


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
