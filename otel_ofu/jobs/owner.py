"""The two nouns of this package: what somebody says of an owner, and the owner.

Plain frozen values; no I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

JOB_ID = "ofu.job.id"
JOB_SOURCE = "ofu.job.source"
MAPPING = "mapping_dir"
SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Claim:
    """What one provider says: a job id, or "" where it knows attributes alone."""

    provider: str
    job_id: str
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Owner:
    """One job on one device.

    `attributes` are OpenTelemetry names (registry.yaml), `ofu.job.id` and `ofu.job.source` among
    them. `pids` are those of the host, in order; none where the device is allocated but no process
    holds it. `share` in (0, 1] is the part of the device that counts for this job: the shares of
    a device add up to 1. The counters of a shared GPU cannot be divided by what each job did, so
    the parts are equal; a sum over jobs (GPUs, GPU-hours, FLOP, energy) weighs each row by it.
    """

    job_id: str
    source: str
    attributes: Mapping[str, str]
    pids: tuple[int, ...] = ()
    share: float = 1.0
