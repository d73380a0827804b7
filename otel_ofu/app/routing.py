"""Notifications: the router and the senders of an agent.

Enters: the config, the outbox. Leaves: a `Routing` that takes findings and delivers.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from otel_ofu.config import Config
from otel_ofu.model import Finding
from otel_ofu.model.clock import Clock
from otel_ofu.notify import Delivery, Router
from otel_ofu.outbox.queues import Outbox
from otel_ofu.outbox.tally import Observe

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
