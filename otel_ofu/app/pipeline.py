"""Where rounds and findings go: history, exporters, notifiers, the terminal.

Enters: observations and scheduled instants. Leaves: telemetry, events, alerts, text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from otel_ofu.app.collectors import Collector
from otel_ofu.app.findings import FindingLog
from otel_ofu.app.routing import Routing
from otel_ofu.app.rules import AgentRules, RulesContext
from otel_ofu.app.telemetry import Dependencies, Telemetry
from otel_ofu.diagnose import card
from otel_ofu.export.finding import finding_event
from otel_ofu.model import Finding, Observation
from otel_ofu.model.clock import Clock

log = logging.getLogger(__name__)

Show = Callable[[str], None]
"""Shows a person a text."""


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
        self.routing = Routing(
            shared.config, telemetry.outbox, self._clock, shared.state_dir, telemetry.meter.exported
        )
        self.collectors: list[Collector] = []
        """What is added to each round; set before the first."""
        self.rules: AgentRules | None = None
        if (loaded := shared.prepared.rules) is not None:
            meter = telemetry.meter
            context = RulesContext(shared.config, loaded, self._clock, shared.state_dir, meter)
            self.rules = AgentRules(context, self._report)

    def take(self, observations: Sequence[Observation]) -> None:
        """One round of the sampler."""
        now_s = self._clock.now_s()
        added = [collector.collect(observations, now_s) for collector in self.collectors]
        exported = [more for each in added for more in each.exported]
        if self.rules is not None:
            self.rules.write([*observations, *(more for each in added for more in each.stored)])
            exported += self.rules.active(now_s)
        self.telemetry.export(observations, exported)

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

    def _report(self, finding: Finding) -> None:
        """The event first: it is kept before anything else is tried."""
        self.telemetry.tell(finding_event(finding))
        self.routing.handle([finding])
        self._log.add(finding)
        shadow = "(shadow) " if finding.shadow else ""
        more = "" if finding.kind == "resolved" else f"\n  id {finding.fingerprint}"
        self._show(f"{shadow}{card(finding)}{more}")
