"""What happens to a round: into the history, out through the exporters; and to a finding: told.

Enters: observations and scheduled instants. Leaves: telemetry, events, words on the terminal.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from otel_ofu.app.additions import Addition
from otel_ofu.app.rules import Judged, RulesAtWork
from otel_ofu.app.telemetry import Ground, Telemetry
from otel_ofu.clock import Clock
from otel_ofu.engine.change import Change
from otel_ofu.engine.events import body, finding_event
from otel_ofu.export.event import Event
from otel_ofu.model import Observation

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

    def close(self, deadline_s: float) -> None:
        if self.rules is not None:
            self.rules.close()
        self.telemetry.close(deadline_s)

    def _tell(self, change: Change) -> None:
        self.telemetry.tell(finding_event(change, Event))
        shadow = " (shadow)" if change.shadow else ""
        self._words(f"{change.kind}{shadow}: {body(change)}")
