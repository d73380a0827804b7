"""Jobs of one node, from the observations of its GPUs."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import load_registry
from otel_ofu.derive.gpu_time import KEPT_S, GpuTimeMeter
from otel_ofu.derive.job_figures import TOTALS, JobFigureSettings
from otel_ofu.derive.jobs import JobAggregator
from otel_ofu.model import Attribute, Entity, GapReason, Observation, Window

T0 = 1_700_000_000.0


def gpu(
    number: int,
    values: Mapping[str, float],
    *,
    job: str = "4711",
    tick: int = 1,
    length_s: float = 10.0,
    attributes: Mapping[str, Attribute] | None = None,
) -> Observation:
    uuid = f"GPU-{number}"
    own: dict[str, Attribute] = {"hw.id": uuid, "host.name": "node-1", **(attributes or {})}
    if job:
        own |= {"ofu.job.id": job, "ofu.job.source": "slurm", "slurm.job.id": job}
    end_s = T0 + 10.0 * tick
    entity = Entity("gpu", f"{uuid}/{job}" if job else uuid, own)
    return Observation(entity, Window(end_s - length_s, end_s), values)


def only(observations: list[Observation]) -> Observation:
    (job,) = observations
    return job


def test_an_idle_gpu_counts_as_zero_and_a_missing_one_not_at_all() -> None:
    busy, idle = {"ofu": 0.6, "gpu_util": 1.0}, {"ofu": 0.0, "gpu_util": 0.0}
    job = only(JobAggregator().aggregate([gpu(0, busy), gpu(1, idle), gpu(2, {"gpu_util": 1.0})]))
    assert job.values["job_ofu"] == pytest.approx(0.3)
    assert job.values["job_coverage"] == pytest.approx(2 / 3)
    assert job.values["job_gpu_count"] == 3.0
    assert (job.values["job_ofu_min"], job.values["job_ofu_max"]) == (0.0, 0.6)
    assert job.values["job_ofu_median"] == pytest.approx(0.3)


class Node:
    """The counters of GPUs and the jobs that are made of them, round by round."""

    def __init__(self) -> None:
        self.meter = GpuTimeMeter()
        self.jobs = JobAggregator()

    def round(self, *gpus: Observation) -> list[Observation]:
        counted = self.meter.count(gpus, max(g.window.end_s for g in gpus))
        shares = {g.entity.id: g.values["owner_share"] for g in gpus if "owner_share" in g.values}
        return self.jobs.aggregate(counted.live, shares)


def test_totals_are_sums_of_what_the_counters_of_the_gpus_gained() -> None:
    node = Node()
    busy, idle = {"ofu": 0.6, "gpu_util": 1.0}, {"ofu": 0.0, "gpu_util": 0.0}
    first, second = (
        only(node.round(*(gpu(i, v, tick=t) for i, v in enumerate((busy, idle, {})))))
        for t in (1, 2)
    )
    assert {first.values[key] for key in TOTALS.values()} == {0.0}
    totals = {key: second.values[key] for key in TOTALS.values()}
    assert totals == {
        "job_gpu_time": 60.0,
        "job_observed_time": 40.0,
        "job_effective_time": pytest.approx(12.0),
        "job_idle_time": 20.0,
        "job_lost_time": 20.0,
    }
    assert set(second.starts_s.values()) == {T0 + 10.0}


def test_there_are_no_totals_where_no_gpu_has_counters() -> None:
    job = only(JobAggregator().aggregate([gpu(0, {"ofu": 0.5})]))
    assert not set(job.values) & set(TOTALS.values())


def test_a_job_without_any_ofu_has_gaps_and_no_zeros() -> None:
    job = only(JobAggregator().aggregate([gpu(0, {"gpu_util": 0.5})]))
    assert "job_ofu" not in job.values
    assert job.gaps["job_ofu"].reason is GapReason.NOT_READY
    assert job.values["job_coverage"] == 0.0


def test_models_weigh_by_what_they_could_do() -> None:
    h100 = gpu(0, {"ofu": 0.5, "flop_limit": 1000.0}, attributes={"ofu.gpu.sku": "h100-sxm5"})
    a100 = gpu(1, {"ofu": 0.1, "flop_limit": 300.0}, attributes={"ofu.gpu.sku": "a100-sxm4"})
    job = only(JobAggregator().aggregate([h100, a100]))
    assert job.values["job_ofu"] == pytest.approx(0.3)
    assert job.values["job_flop_ofu"] == pytest.approx(530 / 1300)
    assert job.entity.attributes["ofu.gpu.sku"] == "mixed"


def test_there_is_no_weighting_by_a_limit_that_is_not_known() -> None:
    job = only(
        JobAggregator().aggregate([gpu(0, {"ofu": 0.5, "flop_limit": 9.0}), gpu(1, {"ofu": 0.1})])
    )
    assert job.values["job_ofu"] == pytest.approx(0.3)
    assert job.gaps["job_flop_ofu"].reason is GapReason.NOT_SUPPORTED


def test_two_jobs_on_one_gpu_do_not_double_it() -> None:
    node, jobs = Node(), list[Observation]()
    for tick in (1, 2):
        shared = {"ofu": 0.4, "owner_share": 0.5}
        jobs = node.round(*(gpu(0, shared, job=job, tick=tick) for job in ("a", "b")))
    assert [job.entity.id for job in jobs] == ["a", "b"]
    assert sum(job.values["job_gpu_count"] for job in jobs) == 1.0
    assert sum(job.values["job_gpu_time"] for job in jobs) == 20.0
    assert jobs[0].values["job_ofu"] == pytest.approx(0.4)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, math.nan])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share of GPU-0/4711"):
        JobAggregator().aggregate([gpu(0, {"ofu": 0.4})], {"GPU-0/4711": share})


def test_gpus_of_nobody_and_other_entities_are_no_job() -> None:
    node = Observation(Entity("node", "n", {"ofu.job.id": "1"}), Window(0, 1), {"ofu": 1.0})
    assert JobAggregator().aggregate([gpu(0, {"ofu": 0.4}, job=""), node]) == []
    assert JobAggregator().aggregate([]) == []


def test_the_entity_has_what_all_gpus_say_of_the_job() -> None:
    pods = [{"k8s.pod.name": f"pod-{i}", "k8s.namespace.name": "ml"} for i in range(2)]
    precision = {"ofu.precision": "bf16", "hw.model": "H100"}
    job = only(
        JobAggregator().aggregate([gpu(i, {}, attributes={**pods[i], **precision}) for i in (0, 1)])
    )
    assert job.entity == Entity(
        "job",
        "4711",
        {
            "ofu.job.id": "4711",
            "ofu.job.source": "slurm",
            "ofu.job.scope": "node",
            "slurm.job.id": "4711",
            "k8s.namespace.name": "ml",
            "ofu.precision": "bf16",
            "host.name": "node-1",
        },
    )
    assert set(job.entity.attributes) <= set(load_registry().attributes)


def test_the_totals_of_a_job_stay_for_five_minutes_after_its_end() -> None:
    node = Node()
    for tick in (1, 2):
        node.round(gpu(0, {"ofu": 0.5}, tick=tick))
    ended = [node.round(gpu(0, {"ofu": 0.5}, job="next", tick=tick))[1:] for tick in range(3, 40)]
    told = [job for (job,) in ended[: int(KEPT_S / 10)]]
    assert {job.entity.id for job in told} == {"4711"}
    assert {job.values["job_gpu_time"] for job in told} == {20.0}
    assert not any(ended[int(KEPT_S / 10) :])


def test_jobs_that_churn_leave_nothing_behind() -> None:
    node = Node()
    for tick in range(500):
        node.round(gpu(0, {"ofu": 0.5}, job=f"job-{tick}", tick=tick))
    assert len(node.jobs._ended) <= KEPT_S / 10 + 2


def test_mfu_is_over_the_peak_that_ofu_has() -> None:
    gpus = [gpu(0, {"ofu": 0.5, "flop_limit": 1e15}), gpu(1, {"ofu": 0.5, "flop_limit": 1e15})]
    reports = {"4711": {"model_flop_rate": 4e14, "mfu_reported": 0.8}}
    job = only(JobAggregator().aggregate(gpus, reports=reports))
    assert job.values["mfu"] == pytest.approx(0.4)
    told = only(JobAggregator().aggregate(gpus, reports={"4711": {"mfu_reported": 0.8}}))
    assert told.values["mfu"] == 0.8
    silent = only(JobAggregator().aggregate(gpus))
    assert silent.gaps["mfu"].reason is GapReason.NOT_READY


@pytest.mark.parametrize("wrong", [0.0, -1.0, 1.5, math.nan])
def test_a_target_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="target_ofu"):
        JobFigureSettings(target_ofu=wrong)


gpus_of_jobs = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.one_of(st.none(), st.floats(0.0, 1.2)),
        st.floats(0.1, 1.0),
        st.floats(1.0, 60.0),
        st.floats(0.0, 1.0),
    ),
    min_size=1,
    max_size=12,
)


@given(gpus_of_jobs)
def test_what_holds_for_any_jobs(rows: list[tuple[str, float | None, float, float, float]]) -> None:
    node, jobs = Node(), list[Observation]()
    for tick in (1, 1000):
        jobs = node.round(
            *(
                gpu(
                    i,
                    {
                        **({} if ofu is None else {"ofu": ofu}),
                        "gpu_util": busy,
                        "owner_share": share,
                    },
                    job=job,
                    length_s=s,
                    tick=tick,
                )
                for i, (job, ofu, share, s, busy) in enumerate(rows)
            )
        )
    registry = load_registry()
    assert {job.entity.id for job in jobs} == {row[0] for row in rows}
    for job in jobs:
        v = job.values
        mine = [row for row in rows if row[0] == job.entity.id]
        held = sum(share * s for _, _, share, s, _ in mine)
        between_s = 9990.0  # nobody measured, and the job had the GPUs
        allocated = sum(share * (s + between_s) for _, _, share, s, _ in mine)
        assert v["job_gpu_time"] == pytest.approx(allocated, rel=1e-5)  # good to 0.2 us
        assert v["job_observed_time"] <= 2 * held + 1e-3
        assert v["job_idle_time"] <= 2 * held + 1e-3
        assert v["job_lost_time"] <= v["job_observed_time"] + 1e-3
        assert v["job_coverage"] == pytest.approx(v["job_observed_time"] / 2 / held, abs=1e-5)
        assert not set(v) & set(job.gaps)
        assert all(registry.check(key, value) is None for key, value in v.items())
        seen = [row for row in mine if row[1] is not None]
        assert ("job_ofu" in v) == bool(seen)
        if seen:
            assert v["job_ofu_min"] <= v["job_ofu"] + 1e-9
            assert v["job_ofu"] <= v["job_ofu_max"] + 1e-9
            assert v["job_ofu_min"] <= v["job_ofu_median"] <= v["job_ofu_max"]
            expected = sum((o or 0.0) * share * s for _, o, share, s, _ in seen)
            assert v["job_effective_time"] == pytest.approx(2 * expected, abs=1e-3)
            assert v["job_ofu"] * v["job_observed_time"] == pytest.approx(2 * expected, abs=1e-3)
