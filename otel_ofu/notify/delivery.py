"""The senders of all targets: each has its queue, its thread and its own backoff.

Enters: settings and the outbox. Leaves: what is delivered, and counts of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from otel_ofu.model.clock import Clock
from otel_ofu.notify.settings import RouteSettings
from otel_ofu.notify.targets import Server, Target, servers_of, targets_of, transports
from otel_ofu.outbox.queues import Outbox
from otel_ofu.outbox.sender import Sender, SenderStats
from otel_ofu.outbox.tally import Observe


class Delivery:
    """One dead receiver never delays another. ValueError or OSError for TLS files of no use."""

    def __init__(
        self,
        settings: RouteSettings,
        outbox: Outbox,
        clock: Clock,
        environ: Mapping[str, str],
        observe: Observe = lambda _exporter, _outcome, _points: None,
    ) -> None:
        targets: list[Server | Target] = [
            *servers_of(settings, clock, environ),
            *targets_of(settings, clock, environ),
        ]
        self.senders = [
            Sender(outbox.queues[t.queue], transports(t), clock, observe=observe) for t in targets
        ]

    def start(self) -> None:
        for sender in self.senders:
            sender.start()

    def stop(self, deadline_s: float) -> None:
        """Tells all of them to end within the deadline, and returns at once."""
        for sender in self.senders:
            sender.stop(deadline_s)

    def shutdown(self, deadline_s: float) -> int:
        """Sends what it can within the deadline; how many bodies are left."""
        self.stop(deadline_s)
        return sum(sender.shutdown(deadline_s) for sender in self.senders)

    def stats(self) -> list[SenderStats]:
        return [sender.stats() for sender in self.senders]
