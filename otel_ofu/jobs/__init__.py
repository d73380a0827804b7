"""Whose GPU it is, without touching the job.

Enters: which processes hold which device, /proc, cgroups, the kubelet's socket, what a source says.
Leaves: for each device the `Owner`s that it has, and a report of what could not be seen.
"""

from otel_ofu.jobs.finder import JobFinder
from otel_ofu.jobs.holders import GpuHolder
from otel_ofu.jobs.owner import Owner
from otel_ofu.jobs.report import JobReport
from otel_ofu.jobs.settings import PROVIDERS, JobSettings

__all__ = ["PROVIDERS", "GpuHolder", "JobFinder", "JobReport", "JobSettings", "Owner"]
