"""Usual levels of jobs, over restarts of the job and of the agent."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from otel_ofu.diagnose import Baselines
from otel_ofu.model import Attribute, Entity, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.store import Retention, Store
from tests.diagnose.scene import REGISTRY, START_S, STEP_S


def job(id_: str = "1", **more: Attribute) -> Entity:
    attributes: dict[str, Attribute] = {
        "ofu.job.id": id_, "slurm.job.name": "llm", "ofu.gpu.sku": "h100", "ofu.precision": "bf16",
    }  # fmt: skip
    return Entity("job", id_, attributes | more)


class Node:
    """A store in which jobs work, and baselines that look at it every 30 s."""

    def __init__(self, path: Path | None = None, start_s: float = START_S) -> None:
        self.now_s = start_s
        self._clock = VirtualClock(start_s)
        self.store = Store(REGISTRY, Retention(), step_s=STEP_S, clock=self._clock)
        self.baselines = Baselines(path, self.store)

    def work(self, minutes: int, ofu: float | None, whose: Entity, gpus: float = 8) -> float | None:
        """The baseline that is told at the end."""
        told: list[Observation] = []
        for _ in range(2 * minutes):
            self.now_s += STEP_S
            self._clock.set(self.now_s)
            values = {"job_gpu_count": gpus} | ({} if ofu is None else {"job_ofu": ofu})
            window = Window(self.now_s - STEP_S, self.now_s)
            self.store.write([Observation(whose, window, values)])
            told = self.baselines.tick(self.now_s)
        found = {one.entity.id: one.values["job_ofu_baseline"] for one in told}
        return found.get(whose.id)


def test_before_half_an_hour_nothing_is_usual() -> None:
    node = Node()
    assert node.work(25, 0.4, job()) is None
    assert node.work(15, 0.4, job()) == pytest.approx(0.4)


def test_a_new_run_of_the_same_job_has_the_past_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "baselines.sqlite"
    node = Node(path)
    node.work(60, 0.4, job("1"))
    node.baselines.close(node.now_s)
    later = Node(path, node.now_s + 3_600)
    assert later.work(10, 0.2, job("2")) == pytest.approx(0.4, abs=0.01)
    later.baselines.close(later.now_s)


@pytest.mark.parametrize("change", [{"ofu.precision": "fp8"}, {"ofu.gpu.sku": "h200"}])
def test_another_precision_or_gpu_begins_anew(change: dict[str, str]) -> None:
    node = Node()
    node.work(60, 0.4, job())
    assert node.work(10, 0.2, Entity("job", "1", {**job().attributes, **change})) is None


def test_another_number_of_gpus_begins_anew() -> None:
    node = Node()
    node.work(60, 0.4, job())
    assert node.work(12, 0.2, job(), gpus=16) is None


def test_a_job_in_trouble_does_not_teach_what_is_usual_until_it_has_lasted() -> None:
    node = Node()
    node.work(60, 0.4, job())
    assert node.work(60, 0.1, job()) == pytest.approx(0.4, abs=0.02)
    assert node.work(6 * 60, 0.1, job()) == pytest.approx(0.1, abs=0.02)


def test_missing_ofu_teaches_nothing() -> None:
    node = Node()
    node.work(60, 0.4, job())
    assert node.work(30, None, job()) is None
    assert node.work(10, 0.4, job()) == pytest.approx(0.4)


def test_jobs_without_a_name_are_told_apart_by_their_id() -> None:
    node = Node()
    node.work(60, 0.4, Entity("job", "1", {"ofu.job.id": "1"}))
    assert node.work(10, 0.2, Entity("job", "2", {"ofu.job.id": "2"})) is None


def test_pods_of_one_controller_are_one_job() -> None:
    node = Node()
    names = ("train-7d4b9c5f6-x2x4z", "train-7d4b9c5f6-abcde")
    pods = [Entity("job", n, {"ofu.job.id": n, "k8s.pod.name": n}) for n in names]
    node.work(60, 0.4, pods[0])
    assert node.work(10, 0.2, pods[1]) == pytest.approx(0.4, abs=0.01)


def test_a_damaged_file_is_set_aside_and_told(tmp_path: Path) -> None:
    path = tmp_path / "baselines.sqlite"
    path.write_bytes(b"no database" * 100)
    node = Node(path)
    assert "set aside" in node.baselines.messages[0]
    assert path.with_suffix(".unusable").exists()
    assert node.work(40, 0.4, job()) == pytest.approx(0.4)
    node.baselines.close(node.now_s)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE jobs SET ofu='x'",
        "UPDATE jobs SET fingerprint=CAST(x'ff' AS TEXT)",
        "DROP TABLE jobs",
    ],
)
def test_one_damaged_row_sets_the_file_aside_and_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    path = tmp_path / "baselines.sqlite"
    node = Node(path)
    node.work(40, 0.4, job())
    node.baselines.close(node.now_s)
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(damage)
    node = Node(path)
    assert caplog.messages == node.baselines.messages
    assert "set aside as baselines.unusable" in caplog.text
    assert node.work(40, 0.2, job()) == pytest.approx(0.2)
    node.baselines.close(node.now_s)


def test_a_file_that_cannot_be_opened_leaves_the_levels_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "baselines.sqlite"
    path.mkdir()
    node = Node(path)
    assert "a folder is in its place; usual levels" in caplog.text
    assert node.work(40, 0.4, job()) == pytest.approx(0.4)
    node.baselines.close(node.now_s)
    assert path.is_dir()


def test_a_clock_that_was_set_back_does_not_stop_it() -> None:
    node = Node()
    node.work(60, 0.4, job())
    node.baselines.tick(START_S)
    assert node.baselines.tick(START_S + 90 * 60) == []
    assert node.baselines.tick(node.now_s) != []
