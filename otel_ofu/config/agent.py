"""The blocks `agent` and `jobs` as the agent reads them."""

from __future__ import annotations

from typing import Annotated, Literal

from otel_ofu.files.settings import Between, Duration, Percent, Settings
from otel_ofu.jobs.settings import JobSettings

_PART = Between(Percent(0.0001), Percent(1))


class Jobs(JobSettings, frozen=True, kw_only=True):
    """Whose GPU it is, and what its time is held against."""

    target_ofu: Annotated[Percent, _PART] = Percent(0.4)
    idle_below: Annotated[Percent, _PART] = Percent(0.01)


class Agent(Settings, frozen=True, kw_only=True):
    """`shutdown_deadline`: longest time for sending what is left when the agent stops."""

    metrics_interval: Annotated[Duration, Between(Duration(1), Duration(86400))] = Duration(60)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    shutdown_deadline: Annotated[Duration, Between(Duration(0), Duration(3600))] = Duration(5)
