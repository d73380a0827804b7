"""Cumulative seconds of GPUs with a job, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.derive import gpu_time
from otel_ofu.derive.gpu_time import FIRST, KEPT_S, CountedRound, GpuTimeMeter
from otel_ofu.derive.job_figures import JobFigureSettings
from otel_ofu.model import Attribute, Entity, Observation, Window

T0 = 1_800_000_000.0
STEP_S = 10.0


class Node:
    """One GPU, read every 10 s."""

    def __init__(self, path: Path | None = None, settings: JobFigureSettings | None = None) -> None:
        self._path, self._settings = path, settings
        self.now_s = T0
        self.meter = GpuTimeMeter(path, settings)

    def round(
        self, job: str | Sequence[str] = "1", length_s: float = STEP_S, **values: float
    ) -> CountedRound:
        self.now_s += STEP_S
        window = Window(self.now_s - length_s, self.now_s)
        jobs = [job] if isinstance(job, str) else job
        seen = [Observation(entity(each), window, values) for each in jobs]
        return self.meter.count(seen, self.now_s)

    def restart(self, away_s: float) -> None:
        self.meter.close()
        self.now_s += away_s
        self.meter = GpuTimeMeter(self._path, self._settings)


def entity(job: str) -> Entity:
    attributes: dict[str, Attribute] = {"hw.id": "GPU-0", "host.name": "n"}
    if not job:
        return Entity("gpu", "GPU-0", attributes)
    return Entity("gpu", f"GPU-0/{job}", {**attributes, "ofu.job.id": job})


def seconds(counted: CountedRound) -> dict[str, float]:
    (seen,) = counted.live
    return {key.removeprefix("gpu_time_"): seen.values[key] for key in FIRST}


def test_counters_begin_with_0_and_lose_nothing() -> None:
    node = Node()
    assert set(seconds(node.round(ofu=0.5)).values()) == {0.0}
    counted = node.round(ofu=0.3, gpu_util=1.0)
    found = seconds(counted)
    assert {key: found.pop(key) for key in list(found) if not key.startswith("lost:")} == {
        "allocated": 20.0,
        "observed": 20.0,
        "effective": pytest.approx(8.0),
        "idle": 0.0,
        "below_target": pytest.approx(2.5),
    }
    assert set(found.values()) == {0.0}
    assert set(counted.live[0].starts_s.values()) == {T0}


def test_what_has_no_ofu_is_allocated_and_not_observed() -> None:
    node = Node()
    node.round(ofu=0.5)
    found = seconds(node.round(gpu_util=0.0))
    assert (found["allocated"], found["observed"], found["idle"]) == (20.0, 10.0, 10.0)


def test_a_shared_gpu_counts_by_its_share() -> None:
    node = Node()
    _, counted = (node.round(["1", "2"], ofu=0.5, owner_share=0.5) for _ in range(2))
    assert [seen.values["gpu_time_allocated"] for seen in counted.live] == [10.0, 10.0]
    assert [seen.values["gpu_time_effective"] for seen in counted.live] == [5.0, 5.0]


def test_a_gpu_without_a_job_and_other_entities_are_passed_on() -> None:
    seen = [
        Observation(entity(""), Window(T0, T0 + 10), {"ofu": 0.5}),
        Observation(Entity("node", "n", {"ofu.job.id": "1"}), Window(T0, T0 + 10), {}),
    ]
    assert GpuTimeMeter().count(seen, T0 + 10) == CountedRound(seen, [])


def test_the_counters_stay_for_five_minutes_after_the_end_of_the_job() -> None:
    node = Node()
    for _ in range(3):
        node.round(ofu=0.5)
    after = [node.round("", ofu=0.5) for _ in range(40)]
    kept = [counted.kept for counted in after if counted.kept]
    assert len(kept) == KEPT_S / STEP_S
    assert {seen.entity.id for (seen,) in kept} == {"GPU-0/1"}
    assert {seen.values["gpu_time_allocated"] for (seen,) in kept} == {30.0}
    assert set(kept[0][0].values) == set(FIRST)


def test_time_is_counted_once_however_windows_overlap() -> None:
    node = Node()
    node.round(ofu=0.5)
    node.round(ofu=0.5, length_s=20.0)
    node.meter.count(
        [Observation(entity("1"), Window(node.now_s - 10, node.now_s), {})], node.now_s
    )
    assert seconds(node.round(ofu=0.5))["allocated"] == 30.0


def test_time_between_two_windows_is_allocated_and_not_observed() -> None:
    node = Node()
    node.round(ofu=0.5)
    found = seconds(node.round(ofu=0.5, length_s=4.0))
    assert (found["allocated"], found["observed"]) == (20.0, 14.0)


def test_a_restart_goes_on_and_the_absence_was_the_jobs(tmp_path: Path) -> None:
    node = Node(tmp_path / "time.sqlite")
    before = [node.round(ofu=0.5) for _ in range(3)][-1].live[0]
    node.restart(60.0)
    after = node.round(ofu=0.5).live[0]
    assert after.values["gpu_time_allocated"] == before.values["gpu_time_allocated"] + 70.0
    assert after.values["gpu_time_observed"] == before.values["gpu_time_observed"] + 10.0
    assert after.starts_s == before.starts_s


def test_the_owner_may_come_some_rounds_after_a_restart(tmp_path: Path) -> None:
    node = Node(tmp_path / "time.sqlite")
    node.round(ofu=0.5)
    node.restart(60.0)
    for _ in range(3):
        assert node.round("", ofu=0.5).kept
    assert seconds(node.round(ofu=0.5))["allocated"] == 10.0 + 60.0 + 40.0


@pytest.mark.parametrize("between", ["", "2"])
def test_a_job_that_did_not_hold_the_gpu_at_the_end_was_not_there_in_between(
    between: str, tmp_path: Path
) -> None:
    node = Node(tmp_path / "time.sqlite")
    node.round(ofu=0.5)
    node.round(between, ofu=0.5)
    node.restart(60.0)
    assert seconds(node.round(ofu=0.5))["allocated"] == 20.0


def test_another_job_after_the_restart_ends_the_first(tmp_path: Path) -> None:
    node = Node(tmp_path / "time.sqlite")
    node.round(ofu=0.5)
    node.restart(60.0)
    counted = node.round("2", ofu=0.5)
    assert [seen.values["gpu_time_allocated"] for seen in counted.kept] == [10.0]
    assert seconds(node.round(ofu=0.5))["allocated"] == 20.0


def test_after_more_than_a_day_a_job_of_the_same_name_is_another(tmp_path: Path) -> None:
    node = Node(tmp_path / "time.sqlite")
    node.round(ofu=0.5)
    node.restart(100_000.0)
    assert seconds(node.round(ofu=0.5))["allocated"] == 20.0


def test_a_clock_that_is_set_back_does_not_stop_the_counting() -> None:
    node = Node()
    node.round(ofu=0.5)
    node.now_s -= 10_000.0
    assert seconds(node.round(ofu=0.5))["allocated"] == 20.0
    assert seconds(node.round(ofu=0.5))["allocated"] == 30.0


def test_a_negative_share_of_time_is_taken_from_the_next_gain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu_time, "INTEGRALS", {"loss": "gpu_time_effective"})
    node = Node(tmp_path / "time.sqlite")
    found = []
    for loss in (0.1, 0.5, -0.2, 0.1, 0.3):
        node.restart(0.0)
        found.append(seconds(node.round(loss=loss))["effective"])
    assert found == pytest.approx([0.0, 6.0, 6.0, 6.0, 8.0])


def test_a_counter_that_comes_later_begins_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_time, "INTEGRALS", {"ofu": "gpu_time_effective", "loss": "more"})
    node = Node()
    node.round(ofu=0.5)
    first, second = (node.round(ofu=0.5, loss=0.2).live[0].values["more"] for _ in range(2))
    assert [first, second] == pytest.approx([0.0, 4.0])


@given(st.lists(st.tuples(st.sampled_from(["", "1", "2"]), st.floats(0, 1.2)), max_size=30))
def test_no_counter_falls_and_all_together_are_the_time_of_the_gpu(
    rounds: list[tuple[str, float]],
) -> None:
    node = Node()
    last: dict[str, dict[str, float]] = {}
    for job, ofu in rounds:
        for seen in (counted := node.round(job, ofu=ofu)).live:
            before = last.get(seen.entity.id, {})
            assert all(seen.values[key] >= value for key, value in before.items())
            last[seen.entity.id] = {key: v for key, v in seen.values.items() if key in FIRST}
        for seen in counted.kept:
            assert all(seen.values[key] >= v for key, v in last[seen.entity.id].items())
    held = sum(bool(job) for job, _ in rounds) * STEP_S
    final = node.round("").kept
    assert sum(seen.values["gpu_time_allocated"] for seen in final) == pytest.approx(held)


def test_lost_seconds_and_effective_ones_are_all_that_was_observed() -> None:
    node = Node()
    rungs = {"idle": 0.2, "no_sm": 0.1, "no_tensor": 0.15, "clock": 0.1, "boost": 0.0}
    above = {"idle": 0.0, "no_sm": 0.1, "no_tensor": 0.3, "clock": 0.0, "boost": 0.05}
    counted = [
        node.round(
            "1", STEP_S, ofu=ofu, **{f"gpu_loss:{kind}": share for kind, share in ladder.items()}
        )
        for ofu, ladder in ((0.45, rungs), (0.65, above), (0.45, rungs))
    ]
    found = seconds(counted[-1])
    assert found["lost:boost"] == pytest.approx(0.5)
    lost_s = sum(found[f"lost:{kind}"] for kind in rungs) - 2 * found["lost:boost"]
    assert found["effective"] + lost_s == pytest.approx(found["observed"]) == 30.0


def test_the_noise_of_a_rung_is_taken_from_what_it_loses_next() -> None:
    node = Node()
    node.round(ofu=0.5)
    values = [
        seconds(node.round("1", STEP_S, ofu=0.5, **{"gpu_loss:no_sm": share}))["lost:no_sm"]
        for share in (0.1, -0.02, 0.01, 0.05)
    ]
    assert values == pytest.approx([1.0, 1.0, 1.0, 1.4])


def test_a_merged_rung_begins_with_its_first_value() -> None:
    node = Node()
    node.round(ofu=0.5)
    key = "gpu_time_lost:idle_and_unsplit"
    rounds = [
        node.round("1", STEP_S, ofu=0.5, **{"gpu_loss:idle_and_unsplit": 0.5}) for _ in range(2)
    ]
    assert [counted.live[0].values[key] for counted in rounds] == [0.0, 10.0]
