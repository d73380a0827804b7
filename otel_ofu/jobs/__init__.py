"""The owner of each GPU, without touching the job.

Enters: which processes hold which device, /proc, cgroups, the kubelet's socket, a source.
Leaves: for each device the `JobOwner`s that it has, and a report of what could not be read.
"""

from otel_ofu.jobs.finder import JobFinder
from otel_ofu.jobs.owner import GpuHolder, JobOwner, PollReport
from otel_ofu.jobs.settings import PROVIDERS, JobSettings

__all__ = ["PROVIDERS", "GpuHolder", "JobFinder", "JobOwner", "JobSettings", "PollReport"]
