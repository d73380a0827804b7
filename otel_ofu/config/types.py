"""The whole configuration, composed of the blocks of its stages.

The settings type of a stage is its block of the file; what several blocks have to fulfil together
stands here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec

from otel_ofu.config.receivers import Receivers
from otel_ofu.evidence.settings import EvidenceSettings
from otel_ofu.export.settings import ExporterSettings
from otel_ofu.files.settings import (
    CheckContext,
    Duration,
    Mistake,
    Percent,
    QuantityRange,
    Settings,
    WritableFolder,
)
from otel_ofu.jobs.settings import JobSettings
from otel_ofu.mfu.settings import MfuSettings
from otel_ofu.notify import RouteSettings
from otel_ofu.outbox.batch import OutboxSettings
from otel_ofu.rules.settings import RulesSettings

# Starting value: rules on jobs have to see a figure while it is about now.
_LATENESS = QuantityRange(Duration(0), Duration(300))
_PART = QuantityRange(Percent(0.0001), Percent(1))


class Jobs(JobSettings, frozen=True, kw_only=True):
    """Whose GPU it is, and what its time is held against.

    `allowed_lateness`: how long a gateway waits for the data of a job's GPUs before it publishes
    the job's figures without it.
    """

    target_ofu: Annotated[Percent, _PART] = Percent(0.4)
    idle_below: Annotated[Percent, _PART] = Percent(0.01)
    allowed_lateness: Annotated[Duration, _LATENESS] = Duration(20)


class AgentSettings(Settings, frozen=True, kw_only=True):
    """`shutdown_deadline`: longest time for sending what is left when the agent stops."""

    metrics_interval: Annotated[Duration, QuantityRange(Duration(1), Duration(86400))] = Duration(
        60
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    shutdown_deadline: Annotated[Duration, QuantityRange(Duration(0), Duration(3600))] = Duration(5)


class Config(Settings, frozen=True, kw_only=True):
    """Everything a user can set, at its default."""

    state_dir: Annotated[str, WritableFolder()] = ""
    resource: dict[str, str] = {}
    receivers: Receivers = msgspec.field(default_factory=Receivers)
    exporters: ExporterSettings = ExporterSettings()
    outbox: OutboxSettings = OutboxSettings()
    jobs: Jobs = msgspec.field(default_factory=Jobs)
    mfu: MfuSettings = MfuSettings()
    evidence: EvidenceSettings = EvidenceSettings()
    rules: RulesSettings = RulesSettings()
    route: RouteSettings = msgspec.field(default_factory=RouteSettings)
    agent: AgentSettings = AgentSettings()

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - text alone
        """What several blocks have to fulfil together."""
        listens = self.receivers.otlp.listens
        if listens and not self.rules.enabled:
            yield ("rules", "enabled"), "must be true where receivers.otlp listens"
        if self.receivers.gpu.source == "none" and not listens:
            yield ("receivers", "gpu", "source"), "none requires an endpoint of receivers.otlp"
