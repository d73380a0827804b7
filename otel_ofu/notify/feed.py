"""What Alertmanagers are sent: every change at once, and everything again while it fires.

Enters: alerts. Leaves: bodies in the queue of each server.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from otel_ofu.notify.alert import Alert
from otel_ofu.notify.alertmanager import bodies_of, posted
from otel_ofu.notify.message import MessageOptions
from otel_ofu.outbox.batch import Priority
from otel_ofu.outbox.queues import Queue


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
        # What was pushed last of each alert: 0.3 ms to make, and sent again every minute.
        self._encoded: dict[str, bytes] = {}
        self._due_s = {queue.exporter: float("-inf") for queue in queues}

    def push(self, alerts: Collection[Alert]) -> None:
        """What has just changed, to everybody."""
        if self._queues and alerts:
            encoded = {alert.id: self._encode(alert) for alert in alerts}
            self._encoded |= encoded
            self._put(self._queues, list(encoded.values()))

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
        if due:
            known = self._encoded
            self._encoded = {a.id: known.get(a.id) or self._encode(a) for a in alerts}
            self._put(due, list(self._encoded.values()))
        for queue in due:
            self._due_s[queue.exporter] = now_s + self._resend_s

    def _encode(self, alert: Alert) -> bytes:
        return msgspec.json.encode(posted(alert, self._labels, self._options))

    def _put(self, queues: Sequence[Queue], encoded: Sequence[bytes]) -> None:
        for body in bodies_of(encoded):
            for queue in queues:
                queue.put(body, Priority.EVENTS)
