"""Jobs for the tests of the report: a few hours of GPUs, with known OFU and MFU."""

from __future__ import annotations

from collections.abc import Mapping

from otel_ofu.model import Entity, Gap, GapReason, Observation, Window
from otel_ofu.report import GpuTime, ReportBuilder, SpeedReport

START_S = 1_764_028_800.0
PEAK = 989.4e12


def gpu(job: str, number: int = 0, host: str = "n1") -> Entity:
    attributes = {"hw.id": f"GPU-{number}", "ofu.gpu.sku": "h100-sxm5", "host.name": host}
    owner = {"ofu.job.id": job} if job else {}
    return Entity("gpu", f"GPU-{number}/{job}", {**attributes, **owner})


def seen(
    entity: Entity, at: float, ofu: float | None, length_s: float = 30.0, **values: float
) -> Observation:
    """A window that begins `at` seconds after the start."""
    window = Window(START_S + at, START_S + at + length_s)
    if ofu is None:
        return Observation(entity, window, values, {"ofu": Gap(GapReason.STALE)})
    return Observation(entity, window, {"ofu": ofu, "flop_limit": PEAK, **values})


def gathered(jobs: Mapping[str, tuple[float, float | None]], hours: float = 2.0) -> ReportBuilder:
    """By job its OFU and its MFU over our peak; 8 GPUs each."""
    gather = ReportBuilder(step_s=60.0)
    for minute in range(int(hours * 60)):
        at_s = START_S + minute * 60.0 + 30.0
        for job, (ofu, mfu) in jobs.items():
            gather.add(
                GpuTime(job=job, time_s=at_s, held_s=480.0, seen_s=480.0, done_s=480.0 * ofu)
            )
            if mfu is not None:
                gather.add_report(SpeedReport(job, at_s, our_mfu=mfu))
    return gather
