"""What Alertmanagers are sent: every change at once, and everything again while it fires.

Enters: alerts. Leaves: bodies in the queue of each server.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from otel_ofu.outbox.parcel import Priority
from otel_ofu.outbox.queues import Queue
from otel_ofu.route.alert import Alert
from otel_ofu.route.alertmanager import bodies_of, posted
from otel_ofu.route.message import MessageOptions


class AlertmanagerFeed:
    """Sends to all servers, never to one of them: they find duplicates among themselves.

    While a server is away, what changed waits for it; the repetitions would only be older copies of
    the same and are left out until its queue is empty.
    """

    def __init__(
        self,
        queues: Sequence[Queue],
        resend_s: float,
        labels: Mapping[str, str],
        options: MessageOptions,
    ) -> None:
        self._queues = queues
        self._resend_s = resend_s
        self._labels = labels
        self._options = options
        self._due_s = {queue.exporter: float("-inf") for queue in queues}

    def push(self, alerts: Collection[Alert], now_s: float) -> None:
        """What has just changed, to everybody."""
        self._put(self._queues, alerts, now_s)

    def tick(self, alerts: Collection[Alert], now_s: float) -> None:
        """Everything again, to those whose time has come. A clock that was set back is noticed."""
        due = [
            queue
            for queue in self._queues
            if not len(queue)
            and not self._due_s[queue.exporter] - self._resend_s
            <= now_s
            < self._due_s[queue.exporter]
        ]
        self._put(due, alerts, now_s)
        for queue in due:
            self._due_s[queue.exporter] = now_s + self._resend_s

    def _put(self, queues: Sequence[Queue], alerts: Collection[Alert], now_s: float) -> None:
        if not queues or not alerts:
            return
        wire = [posted(alert, self._labels, self._options, now_s) for alert in alerts]
        for body in bodies_of(wire):
            for queue in queues:
                queue.put(body, Priority.EVENTS)
