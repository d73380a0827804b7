"""Recent history of every entity, for rules; and the totals of jobs."""

from otel_ofu.store.endings import EndedEntitySet, FleetState
from otel_ofu.store.job_time import JobTimeSums
from otel_ofu.store.job_time_tables import JobTime
from otel_ofu.store.retention import Retention
from otel_ofu.store.series import SampleBlock
from otel_ofu.store.store import Store
from otel_ofu.store.table import StateInUseError, StateUnusableError

__all__ = [
    "EndedEntitySet",
    "FleetState",
    "JobTime",
    "JobTimeSums",
    "Retention",
    "SampleBlock",
    "StateInUseError",
    "StateUnusableError",
    "Store",
]
