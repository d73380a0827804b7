"""Jobs over many nodes, from the store of a gateway."""

from __future__ import annotations

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.derive.fleet_jobs import DESCRIBE_S, MOST_STEPS, FleetJobs
from otel_ofu.derive.job_figures import JobFigureSettings
from otel_ofu.derive.jobs import JobAggregator
from otel_ofu.model import Attribute, Entity, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.store import Store

STEP_S = 10.0
T0 = 1_700_000_000.0


class Fleet:
    """A store, and nodes that report to it."""

    def __init__(self, lateness_s: float = 20.0) -> None:
        self.clock = VirtualClock(T0)
        self.store = Store(load_registry(), step_s=STEP_S, clock=self.clock)
        self.jobs = FleetJobs(self.store, JobFigureSettings(allowed_lateness_s=lateness_s))

    def report(self, number: int, job: str, **values: float) -> Observation:
        attributes: dict[str, Attribute] = {
            "hw.id": f"GPU-{number}",
            "host.name": f"node-{number // 8}",
            "ofu.job.id": job,
            "ofu.gpu.sku": "h100-sxm5",
        }
        entity = Entity("gpu", f"GPU-{number}/{job}", attributes)
        end_s = self.clock.now_s()
        seen = Observation(entity, Window(end_s - STEP_S, end_s), values)
        self.store.write([seen])
        return seen

    def later(self, steps: int = 1) -> None:
        self.clock.advance(steps * STEP_S)

    def tick(self) -> list[Observation]:
        return self.jobs.tick(self.clock.now_s())


def test_a_job_on_two_nodes_is_one_job() -> None:
    fleet = Fleet()
    seen = [fleet.report(n, "1", ofu=0.1 * (n % 8), flop_limit=1e15) for n in range(16)]
    fleet.later()
    (job,) = fleet.tick()
    assert job.window == Window(T0 - STEP_S, T0)
    (expected,) = JobAggregator(scope="fleet").aggregate(seen)
    for key, value in expected.values.items():
        assert job.values[key] == pytest.approx(value, rel=1e-6), key
    assert job.entity.attributes == {
        "ofu.job.id": "1",
        "ofu.job.scope": "fleet",
        "ofu.gpu.sku": "h100-sxm5",
    }


def test_a_job_whose_data_is_there_does_not_wait_for_another() -> None:
    fleet = Fleet()
    fleet.report(0, "1", ofu=0.5)
    fleet.report(1, "2", ofu=0.5)
    fleet.later()
    fleet.report(0, "1", ofu=0.5)
    fleet.tick()
    fleet.later()
    (job,) = fleet.tick()
    assert job.entity.id == "1"
    fleet.later()
    late = {
        each.entity.id: each.values["job_late_gpus"]
        for each in fleet.tick()
        if "job_late_gpus" in each.values
    }
    assert late["2"] == 1.0


@pytest.mark.parametrize(("lateness_s", "steps"), [(0.0, 1), (20.0, 2), (45.0, 5), (300.0, 30)])
def test_a_step_waits_for_the_allowed_lateness(lateness_s: float, steps: int) -> None:
    fleet = Fleet(lateness_s)
    fleet.report(0, "1", ofu=0.5)
    fleet.later()
    fleet.tick()
    waited = 0
    told: list[Observation] = []
    while not told:
        fleet.later()
        waited += 1
        told = [each for each in fleet.tick() if each.entity.kind == "job"]
    assert waited == steps
    assert told[0].window.end_s == T0 + STEP_S
    assert told[0].values["job_late_gpus"] == 1.0


def test_every_step_is_published_once() -> None:
    fleet = Fleet()
    told = []
    for _ in range(5):
        fleet.report(0, "1", ofu=0.5, gpu_util=0.0)
        told += [*fleet.tick(), *fleet.tick()]
        fleet.later()
    ends = [job.window.end_s for job in told]
    assert ends == [T0 + STEP_S * n for n in range(4)]


def test_a_gpu_that_fell_silent_is_missing_and_late() -> None:
    fleet = Fleet()
    for number in (0, 1):
        fleet.report(number, "1", ofu=0.5, gpu_util=1.0)
    fleet.later()
    fleet.tick()
    fleet.report(0, "1", ofu=0.5, gpu_util=1.0)
    fleet.later(2)
    job = next(each for each in fleet.tick() if each.entity.kind == "job")
    assert job.window.end_s == T0 + STEP_S
    assert job.values["job_coverage"] == 0.5
    assert job.values["job_ofu"] == pytest.approx(0.5)
    assert job.values["job_gpu_count"] == 2.0
    assert job.values["job_late_gpus"] == 1.0


def test_a_gpu_that_two_jobs_share_counts_once() -> None:
    fleet = Fleet()
    for job in ("1", "2"):
        fleet.report(0, job, ofu=0.5)
    fleet.later()
    jobs = fleet.tick()
    assert [job.values["job_gpu_count"] for job in jobs] == [0.5, 0.5]


def test_a_gpu_that_changed_its_job_is_not_shared() -> None:
    fleet = Fleet()
    fleet.report(0, "1", ofu=0.5)
    for _ in range(4):
        fleet.later()
        fleet.report(0, "2", ofu=0.5)
    fleet.later()
    counts = {job.entity.id: job.values["job_gpu_count"] for job in fleet.tick()}
    assert counts["2"] == 1.0


def test_after_a_pause_it_catches_up_with_a_minute() -> None:
    fleet = Fleet()
    fleet.report(0, "1", ofu=0.5)
    fleet.tick()
    fleet.later(100)
    fleet.report(0, "1", ofu=0.5)
    fleet.later()
    told = [each for each in fleet.tick() if each.entity.kind == "job"]
    assert len(told) == MOST_STEPS


def test_a_clock_that_is_set_back_is_followed() -> None:
    fleet = Fleet()
    fleet.report(0, "1", ofu=0.5)
    fleet.jobs.tick(T0 + 1e6)
    assert fleet.jobs.tick(T0) == []
    assert len(fleet.jobs.tick(T0 + STEP_S)) == 1


def test_what_a_job_reports_becomes_mfu() -> None:
    fleet = Fleet()
    fleet.report(0, "1", ofu=0.5, flop_limit=1e15)
    entity = Entity("job", "1", {"ofu.job.id": "1"})
    window = Window(T0, T0)
    fleet.store.write([Observation(entity, window, {"model_flop_rate": 4e14})])
    fleet.later()
    (job,) = fleet.tick()
    assert job.values["mfu"] == pytest.approx(0.4)


def test_a_report_every_ten_minutes_stands_until_the_next_is_due() -> None:
    fleet, entity = Fleet(), Entity("job", "1", {"ofu.job.id": "1"})
    told: list[bool] = []
    for step in range(int(2 * 3600 / STEP_S)):
        now_s = fleet.clock.now_s()
        fleet.report(0, "1", ofu=0.5)
        # The last report comes after 50 minutes.
        if step % 60 == 0 and step <= 300:
            report = Observation(entity, Window(now_s, now_s), {"mfu_reported": 0.4})
            fleet.store.write([report])
        told += ["mfu" in job.values for job in fleet.tick()]
        fleet.later()
    # Until the second one shows how often it reports, five minutes; then twice that time.
    known = [step for step, is_known in enumerate(told) if is_known]
    assert known[:31] == list(range(31))
    assert known[31:] == list(range(60, 300 + 2 * 60 + 1))


def test_after_the_clock_was_set_back_reports_are_followed() -> None:
    fleet, entity = Fleet(), Entity("job", "1", {"ofu.job.id": "1"})
    told: list[Observation] = []
    for start_s in (T0 + 20_000.0, T0):
        fleet.clock.set(start_s)
        for _ in range(4):
            now_s = fleet.clock.now_s()
            fleet.report(0, "1", ofu=0.5)
            fleet.store.write([Observation(entity, Window(now_s, now_s), {"mfu_reported": 0.4})])
            told = fleet.tick()
            fleet.later()
    assert told[-1].values["mfu"] == pytest.approx(0.4)


def test_a_gateway_that_starts_reads_how_often_a_job_reported() -> None:
    fleet, entity = Fleet(), Entity("job", "1", {"ofu.job.id": "1"})
    for step in range(200):
        now_s = fleet.clock.now_s()
        fleet.report(0, "1", ofu=0.5)
        if step in (60, 120):
            report = Observation(entity, Window(now_s, now_s), {"mfu_reported": 0.4})
            fleet.store.write([report])
        fleet.later()
    (job,) = FleetJobs(fleet.store).tick(fleet.clock.now_s())
    assert job.values["mfu"] == pytest.approx(0.4)


def test_an_attribute_that_changes_is_seen_within_a_minute() -> None:
    fleet = Fleet()
    for _ in range(int(DESCRIBE_S / STEP_S) + 3):
        fleet.report(0, "1", ofu=0.5)
        fleet.tick()
        fleet.later()
    entity = fleet.store.entities("gpu")[0]
    told: list[Observation] = []
    changed = Entity("gpu", entity.id, {**entity.attributes, "slurm.partition": "batch"})
    for _ in range(int(DESCRIBE_S / STEP_S) + 3):
        end_s = fleet.clock.now_s()
        fleet.store.write([Observation(changed, Window(end_s - STEP_S, end_s), {"ofu": 0.5})])
        told = fleet.tick()
        fleet.later()
    assert told[-1].entity.attributes["slurm.partition"] == "batch"


def test_an_empty_store_has_no_jobs() -> None:
    assert Fleet().tick() == []


def test_jobs_that_churn_leave_nothing_behind() -> None:
    fleet = Fleet()
    for number in range(300):
        fleet.report(0, f"job-{number}", ofu=0.5)
        fleet.tick()
        fleet.store.end("gpu", f"GPU-0/job-{number - 2}")
        fleet.later()
    assert len(fleet.jobs._described) <= 4
    assert len(fleet.jobs._published) <= 2
