"""Integrations: a notifier as a receiver has it, with its queue of the outbox and its sender.

Enters: settings, notifications. Leaves: bodies in the queues, which the senders deliver. The word
is Alertmanager's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from otel_ofu.model.clock import Clock
from otel_ofu.notify.alert import SIGNAL, Notification
from otel_ofu.notify.alertmanager import AlertmanagerServer, servers_of
from otel_ofu.notify.message import MessageOptions
from otel_ofu.notify.notifier import Notifier, NotifierConfig
from otel_ofu.notify.settings import RouteSettings
from otel_ofu.outbox.batch import Body, Limits, Observe, Priority
from otel_ofu.outbox.outcome import Transport
from otel_ofu.outbox.queues import Outbox, Queue
from otel_ofu.outbox.sender import Sender, SenderStats

# A queue's part of the disk: some 100,000 notifications of one alert, or 600 of 1,000.
MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Integration:
    """One block of a receiver. `connect`: ValueError or OSError for unusable files."""

    queue: str
    receiver: str
    notifier: Notifier
    config: NotifierConfig
    signal = SIGNAL

    def wanted(self, notification: Notification) -> Notification | None:
        """What of a notification it is to send; None for nothing."""
        if self.config.send_resolved:
            return notification
        return replace(notification, alerts=notification.firing) if notification.news else None

    def body(self, notification: Notification, options: MessageOptions) -> Body:
        raw = self.notifier.encode(self.config, notification, options)
        return Body.of(SIGNAL, raw, len(notification.alerts))

    def connect(self, clock: Clock, environ: Mapping[str, str]) -> Transport:
        return self.notifier.connect(self.config, clock, environ)


def integrations_of(settings: RouteSettings) -> Sequence[Integration]:
    return [
        Integration(queue, receiver.name, notifier, config)
        for receiver in settings.receivers
        for queue, notifier, config in receiver.configs()
    ]


def endpoints_of(settings: RouteSettings) -> Sequence[AlertmanagerServer | Integration]:
    """Everything that has a queue and a sender."""
    return [*servers_of(settings.alertmanager), *integrations_of(settings)]


def queue_limits(settings: RouteSettings) -> Mapping[str, Limits]:
    """The queues that the outbox has to have for these settings."""
    limits = Limits(MAX_BYTES, float(settings.max_age))
    return dict.fromkeys([endpoint.queue for endpoint in endpoints_of(settings)], limits)


class Dispatcher:
    """Puts notifications into queues. `notified` counts them by receiver since the start."""

    def __init__(
        self,
        integrations: Sequence[Integration],
        queues: Mapping[str, Queue],
        options: MessageOptions,
    ) -> None:
        self._integrations: dict[str, list[Integration]] = {}
        for integration in integrations:
            self._integrations.setdefault(integration.receiver, []).append(integration)
        self._queues = queues
        self._options = options
        self.notified: dict[str, int] = {}

    def dispatch(self, notification: Notification) -> None:
        """To all integrations of the receiver, each with an id of its own."""
        receiver = notification.receiver
        for each in self._integrations.get(receiver, ()):
            wanted = each.wanted(notification)
            if wanted is None:
                continue
            body = each.body(replace(wanted, id=_id(each.queue, wanted)), self._options)
            self._queues[each.queue].put(body, Priority.EVENTS)
            self.notified[receiver] = self.notified.get(receiver, 0) + 1


class Delivery:
    """The senders: a dead receiver never delays another. ValueError or OSError as `connect`."""

    def __init__(
        self,
        settings: RouteSettings,
        outbox: Outbox,
        clock: Clock,
        environ: Mapping[str, str],
        observe: Observe = lambda _exporter, _outcome, _points: None,
    ) -> None:
        self.senders = [
            Sender(
                outbox.queues[each.queue],
                {each.signal: each.connect(clock, environ)},
                clock,
                observe=observe,
            )
            for each in endpoints_of(settings)
        ]

    def start(self) -> None:
        for sender in self.senders:
            sender.start()

    def stop(self, deadline_s: float) -> None:
        """Makes all of them end within the deadline, and returns at once."""
        for sender in self.senders:
            sender.stop(deadline_s)

    def shutdown(self, deadline_s: float) -> int:
        """Sends what it can within the deadline; how many bodies are left."""
        self.stop(deadline_s)
        return sum(sender.shutdown(deadline_s) for sender in self.senders)

    def stats(self) -> Sequence[SenderStats]:
        return [sender.stats() for sender in self.senders]


def _id(queue: str, notification: Notification) -> str:
    """Another for every notification of every queue; the same only for what is sent twice."""
    text = repr((queue, notification.group_key, notification.at_s)).encode("utf-8", "replace")
    return f"msg_{hashlib.sha256(text).hexdigest()[:24]}"
