"""What happens to a round: into the history, out through the exporters; and to a finding: told.

Enters: observations and scheduled instants. Leaves: telemetry, events, words on the terminal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from otel_ofu.app.collectors import Addition
from otel_ofu.app.diagnoses import DiagnosisLog
from otel_ofu.app.routing import Routing
from otel_ofu.app.rules import Judged, RulesAtWork
from otel_ofu.app.telemetry import Ground, Telemetry
from otel_ofu.diagnose import card
from otel_ofu.model import Diagnosis, Observation
from otel_ofu.model.clock import Clock
from otel_ofu.model.event import Event
from otel_ofu.notify.event import diagnosis_event
from otel_ofu.rules.lifecycle.change import Change
from otel_ofu.rules.lifecycle.events import finding_event

log = logging.getLogger(__name__)

Words = Callable[[str], None]


class Pipeline:
    """Rules and exporters behind the sampler. `words` shows a person what happened."""

    def __init__(
        self, ground: Ground, telemetry: Telemetry, words: Words, clock: Clock | None = None
    ) -> None:
        self.telemetry = telemetry
        self.host = ground.host
        self._words = words
        self._clock = clock or ground.clock
        self._log = DiagnosisLog(ground.state_dir)
        self.routing = Routing(
            ground.config, telemetry.outbox, self._clock, ground.state_dir, telemetry.meter.exported
        )
        self.additions: list[Addition] = []
        """What is added to each round; set before the first."""
        self.rules: RulesAtWork | None = None
        if ground.config.rules.enabled:
            self.rules = RulesAtWork(
                Judged(ground.config, self._clock, ground.state_dir, telemetry.meter, self._tell)
            )

    def take(self, observations: Sequence[Observation]) -> None:
        """One round of the sampler."""
        now_s = self._clock.now_s()
        added = [addition.add(observations, now_s) for addition in self.additions]
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

    def _tell(self, diagnosis: Diagnosis, change: Change | None) -> None:
        """The event first: it is kept before anything else is tried."""
        event = diagnosis_event(diagnosis, Event)
        if change is not None:
            known = finding_event(change, Event).attributes
            event = replace(event, attributes={**known, **event.attributes})
        self.telemetry.tell(event)
        self.routing.handle([diagnosis])
        self._log.add(diagnosis)
        shadow = "(shadow) " if diagnosis.shadow else ""
        more = "" if diagnosis.kind == "resolved" else f"\n  id {diagnosis.fingerprint}"
        self._words(f"{shadow}{card(diagnosis)}{more}")
