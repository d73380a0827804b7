"""The nouns of this package: who holds a device, what a provider claims, the owner, the report.

Plain frozen values; no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

MAPPING = "mapping_dir"
SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one provider reports: a job id, or "" where it knows attributes alone.

    `also_id` is another id under which others may know the job. `share` in (0, 1] is the part of
    the device that a source states for it.
    """

    provider: str
    job_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    share: float | None = None
    also_id: str = ""

    @property
    def ids(self) -> frozenset[str]:
        return frozenset((self.job_id, self.also_id)) - {""}


@dataclass(frozen=True, slots=True)
class JobOwner:
    """One job on one device.

    `attributes` are OpenTelemetry names (registry.yaml), `ofu.job.id` and `ofu.job.source` among
    them. `pids` are those of the host, in order; none where the device is allocated but no process
    holds it. `share` in (0, 1] is the part of the device that counts for this job: the shares of
    a device add up to 1 at most. The counters of a shared GPU cannot be divided by what each job
    did, so the parts are equal unless the source states others; a sum over jobs (GPUs, GPU-hours,
    FLOP, energy) weighs each row by it.
    """

    job_id: str
    source: str
    attributes: Mapping[str, str]
    pids: tuple[int, ...] = ()
    share: float = 1.0


class GpuHolder(Protocol):
    """A compute process on a device (`otel_ofu.sources.nvml.GpuProcess`); pids are the host's."""

    @property
    def device_uuid(self) -> str: ...

    @property
    def pid(self) -> int: ...

    @property
    def gpu_instance_id(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class PollReport:
    """How the last poll went; `polled_at_s` is None before the first.

    `unowned`: processes on a GPU that no provider knows. `problems`: one line a cause.
    `counts`: kind -> how often since the start.
    """

    polled_at_s: float | None = None
    seconds: float = 0.0
    devices: int = 0
    processes: int = 0
    unowned: int = 0
    problems: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
