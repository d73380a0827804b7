"""The telling of groups: puts what a receiver is to know into the queues of its targets.

Enters: tellings. Leaves: bodies in the outbox.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from otel_ofu.notify.grouping import Telling
from otel_ofu.notify.http import NOTIFICATION
from otel_ofu.notify.notification import Notification, notification_of
from otel_ofu.notify.targets import Target
from otel_ofu.outbox.batch import Priority
from otel_ofu.outbox.body import Body
from otel_ofu.outbox.queues import Queue


class Announcer:
    """`told` counts notifications by receiver since the start."""

    def __init__(self, targets: Sequence[Target], queues: Mapping[str, Queue]) -> None:
        self._targets: dict[str, list[Target]] = {}
        for target in targets:
            self._targets.setdefault(target.receiver, []).append(target)
        self._queues = queues
        self.told: dict[str, int] = {}

    def announce(self, telling: Telling, now_s: float) -> None:
        receiver = telling.group.route.receiver
        for target in self._targets.get(receiver, ()):
            wanted = _for(target, telling)
            if wanted is None:
                continue
            id_ = _id(target.queue, telling.group.key, now_s)
            told = notification_of(wanted, receiver, id_, now_s)
            self._queues[target.queue].put(_body(target, told), Priority.EVENTS)
            self.told[receiver] = self.told.get(receiver, 0) + 1


def _for(target: Target, telling: Telling) -> Telling | None:
    """What of a telling this target wants to hear; None for nothing."""
    if target.send_resolved:
        return telling
    return Telling(telling.group, telling.firing, (), telling.news) if telling.news else None


def _body(target: Target, told: Notification) -> Body:
    return Body.of(NOTIFICATION, target.encode(told), len(told.alerts))


def _id(queue: str, group_key: str, now_s: float) -> str:
    """Another for every notification of every target; told twice only if it is sent twice."""
    told = repr((queue, group_key, now_s)).encode("utf-8", "replace")
    return f"msg_{hashlib.sha256(told).hexdigest()[:24]}"
