"""Groups: alerts that are notified together, and when.

Enters: alerts, instants. Leaves: notifications that are due. No I/O and no clock.
Source: Alertmanager's dispatch and notification log: `group_wait` before the first notification,
`group_interval` before what is new in a group, `repeat_interval` before nothing new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from otel_ofu.notify.alert import Alert, Notification
from otel_ofu.notify.routes import AlertRoute

Covered = Callable[[Alert], bool]
"""Whether the notification of another alert covers this one."""


@dataclass(slots=True)
class NotifiedAlerts:
    """What the receiver was notified of last: ids of alerts that it takes for firing."""

    firing: frozenset[str] = frozenset()
    at_s: float = float("-inf")


@dataclass(slots=True)
class AlertGroup:
    """`due_s`: when it may be notified next (Unix seconds)."""

    key: str
    route: AlertRoute
    labels: Mapping[str, str]
    due_s: float
    notified: NotifiedAlerts = field(default_factory=NotifiedAlerts)
    alerts: dict[str, Alert] = field(default_factory=dict)


def due_notification(group: AlertGroup, covered: Covered, now_s: float) -> Notification | None:
    """What to notify of a group now; None if nothing is new and it is not time to repeat."""
    known = group.notified
    firing = [a for a in group.alerts.values() if a.firing and not covered(a)]
    ended = [a for a in group.alerts.values() if not a.firing and a.id in known.firing]
    fresh = any(a.id not in known.firing for a in firing)
    again = bool(firing) and now_s - known.at_s >= group.route.timing.repeat_s
    if not (fresh or ended or again):
        return None
    return Notification(
        receiver=group.route.receiver,
        group_key=group.key,
        group_labels=group.labels,
        alerts=sorted([*firing, *ended], key=lambda alert: alert.rank),
        at_s=now_s,
        news=fresh or again,
    )


def mark_notified(group: AlertGroup, notification: Notification) -> None:
    """The receiver knows. What fires but is covered stays known, unless all was resolved."""
    firing = {a.id for a in notification.alerts if a.firing}
    ended = {a.id for a in notification.alerts if not a.firing}
    known = (group.notified.firing | firing) - ended if firing else frozenset[str]()
    group.notified = NotifiedAlerts(known, notification.at_s)


def forget_ended(group: AlertGroup) -> list[Alert]:
    """Takes out what ended and needs no notification; those alerts."""
    gone = [a for a in group.alerts.values() if not a.firing and a.id not in group.notified.firing]
    for alert in gone:
        del group.alerts[alert.id]
        alert.groups.remove(group.key)
    return gone


class AlertGroups:
    """All groups, by key. `most`: so many of one route; further alerts share a summary."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._groups: dict[str, AlertGroup] = {}
        self._by_route: dict[str, set[str]] = {}
        self._continued: dict[str, str] = {}

    def __iter__(self) -> Iterator[AlertGroup]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def find(self, key: str) -> AlertGroup | None:
        return self._groups.get(key)

    def holds(self, alert: Alert, route: AlertRoute) -> bool:
        """Whether the alert is in a group of this route."""
        keys = (route.group_key(alert.labels), route.summary_key)
        return any(self._key(key) in alert.groups for key in keys)

    def put(self, alert: Alert, route: AlertRoute, now_s: float) -> AlertGroup:
        """Puts a new alert where it belongs: in its group, or in the summary of its route."""
        key, labels = self._key(route.group_key(alert.labels)), route.group_labels(alert.labels)
        if key not in self._groups and len(self._by_route.get(route.key, ())) >= self._most:
            key, labels = self._key(route.summary_key), {}
        return self.join(alert, AlertGroup(key, route, labels, now_s + route.timing.wait_s))

    def join(self, alert: Alert, wanted: AlertGroup) -> AlertGroup:
        """Puts an alert into the group of this key, which is `wanted` if it is new."""
        group = self._groups.setdefault(wanted.key, wanted)
        self._by_route.setdefault(group.route.key, set()).add(group.key)
        group.alerts[alert.id] = alert
        if group.key not in alert.groups:
            alert.groups.append(group.key)
        return group

    def carry_on(self, key: str, old_key: str) -> None:
        """A group that was opened under other routes keeps its key: receivers know it by that."""
        self._continued[key] = old_key

    def due(self, now_s: float) -> list[AlertGroup]:
        """The groups whose time has come. A clock that was set back keeps none of them waiting."""
        return [g for g in self._groups.values() if not now_s < g.due_s <= now_s + _longest_s(g)]

    def drop(self, group: AlertGroup) -> None:
        del self._groups[group.key]
        self._by_route[group.route.key].discard(group.key)
        self._continued = {key: old for key, old in self._continued.items() if old != group.key}

    def _key(self, key: str) -> str:
        return self._continued.get(key, key)


def _longest_s(group: AlertGroup) -> float:
    timing = group.route.timing
    return max(timing.wait_s, timing.interval_s)
