"""Where rounds and findings go: history, exporters, notifiers, the terminal.

Enters: observations and scheduled instants. Leaves: telemetry, events, alerts, text.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from otel_ofu.app.collectors import Collector
from otel_ofu.app.findings import FindingLog
from otel_ofu.app.job_reports import job_settings
from otel_ofu.app.rules import AgentRules, RulesContext
from otel_ofu.app.telemetry import Dependencies, Telemetry
from otel_ofu.config import Config
from otel_ofu.derive.gpu_time import GpuTimeMeter
from otel_ofu.diagnose import card
from otel_ofu.export.logs import finding_event
from otel_ofu.model import Finding, Observation
from otel_ofu.model.clock import Clock
from otel_ofu.notify import Delivery, Router
from otel_ofu.outbox.batch import Observe
from otel_ofu.outbox.queues import Outbox
from otel_ofu.store import FleetState

log = logging.getLogger(__name__)

Show = Callable[[str], None]
"""Shows a person a text."""


# Starting value: group_wait is written in seconds.
TICK_S = 1.0


class Routing:
    """Thread-safe. The config was checked when it was read."""

    def __init__(
        self, config: Config, outbox: Outbox, clock: Clock, state_dir: Path | None, observe: Observe
    ) -> None:
        self._router = Router(config.route, outbox, clock, state_dir)
        self._delivery = Delivery(config.route, outbox, clock, os.environ, observe)
        self._begun = False

    def start(self) -> None:
        self._delivery.start()

    def handle(self, findings: Sequence[Finding]) -> None:
        self._router.handle(findings)

    def tick(self, now_s: float) -> None:
        self._router.tick(now_s)

    def retain(self, fingerprints: Collection[str]) -> None:
        """After a restart: ends alerts of findings that the engine does not know any more."""
        if not self._begun:
            self._begun = True
            self._router.retain(fingerprints)

    def stop(self, deadline_s: float) -> None:
        """Makes the senders end within the deadline, and returns at once."""
        self._router.close()
        self._delivery.stop(deadline_s)

    def shutdown(self, deadline_s: float) -> int:
        """How many notifications are left; they are kept for the next start."""
        return self._delivery.shutdown(deadline_s)


class Pipeline:
    """Rules and exporters behind the sampler. `show` gets a card of each finding."""

    def __init__(
        self, shared: Dependencies, telemetry: Telemetry, show: Show, clock: Clock | None = None
    ) -> None:
        self.telemetry = telemetry
        self.host = shared.host_name
        self._show = show
        self._clock = clock or shared.clock
        self._log = FindingLog(shared.state_dir)
        self.state_dir = shared.state_dir
        path = shared.state_dir / "gpu-time.sqlite" if shared.state_dir else None
        self._times = GpuTimeMeter(path, job_settings(shared.config.jobs))
        self.routing = Routing(
            shared.config, telemetry.outbox, self._clock, shared.state_dir, telemetry.meter.exported
        )
        self.collectors: list[Collector] = []
        """What is added to each round; set before the first."""
        self.fleet = FleetState.open(None)
        """What a gateway keeps of jobs; set before the first round."""
        self.rules: AgentRules | None = None
        if (loaded := shared.prepared.rules) is not None:
            meter = telemetry.meter
            context = RulesContext(shared.config, loaded, self._clock, shared.state_dir, meter)
            self.rules = AgentRules(context, self._report)

    def take(self, observations: Sequence[Observation]) -> None:
        """One round of the sampler."""
        now_s = self._clock.now_s()
        counted = self._times.count(observations, now_s)
        added = [collector.collect(counted.live, now_s) for collector in self.collectors]
        exported = [more for each in added for more in each.exported]
        if self.rules is not None:
            self.rules.write([*counted.live, *(more for each in added for more in each.stored)])
            exported += self.rules.active(now_s)
        self.telemetry.export(counted.live, exported, counted.kept)

    def take_events(self, observations: Sequence[Observation]) -> None:
        """What happened to single GPUs between two rounds. Never while one is taken."""
        if self.rules is not None:
            self.rules.write(observations)
        self.telemetry.export_between(observations)

    def judge(self, now_s: float) -> None:
        """One round of the rules, at its scheduled instant."""
        if self.rules is not None:
            self.rules.tick(now_s)
            self.routing.retain(self.rules.fingerprints())

    def start(self) -> None:
        self.telemetry.start()
        self.routing.start()

    def close(self, deadline_s: float) -> None:
        if self.rules is not None:
            self.rules.close()
        self.routing.stop(deadline_s)
        self.telemetry.drain(deadline_s)
        if left := self.routing.shutdown(0.1):
            log.warning("%d notifications not sent", left)
        self.telemetry.end()
        self._times.close()
        self.fleet.close()

    def _report(self, finding: Finding) -> None:
        """The event first: it is kept before anything else is tried."""
        self.telemetry.export_event(finding_event(finding))
        self.routing.handle([finding])
        self._log.add(finding)
        shadow = "(shadow) " if finding.shadow else ""
        more = "" if finding.kind == "resolved" else f"\n  id {finding.fingerprint}"
        self._show(f"{shadow}{card(finding)}{more}")
