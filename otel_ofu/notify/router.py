"""From findings to notifications: the routing of one agent.

Enters: findings and ticks. Leaves: bodies in the outbox, which senders deliver. Alerts and groups
are kept in SQLite: after a restart alerts go on, and nothing is notified twice. A file that cannot
be used is set aside and logged; a disk that takes no write is logged once and tried again with the
next change.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from otel_ofu.files.sqlite import Change, FileSchema, Rows, SqliteTables, Table
from otel_ofu.model import Finding
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.notify.alert import Alert, AlertStore, clean, restore_coverage
from otel_ofu.notify.alertmanager import AlertmanagerSender, servers_of
from otel_ofu.notify.grouping import (
    AlertGroup,
    AlertGroups,
    NotifiedAlerts,
    due_notification,
    forget_ended,
    mark_notified,
)
from otel_ofu.notify.integrations import Dispatcher, integrations_of
from otel_ofu.notify.routes import AlertRoute, build_routes
from otel_ofu.notify.settings import RouteSettings
from otel_ofu.outbox.queues import Outbox

T = TypeVar("T")

_log = logging.getLogger(__name__)

_VERSION = 1
_SCHEMA = """
CREATE TABLE alert (id TEXT PRIMARY KEY, raw BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE alert_group (key TEXT PRIMARY KEY, raw BLOB NOT NULL) WITHOUT ROWID;
"""
_FORM = FileSchema(_SCHEMA, _VERSION, "groups", lambda path: path.with_name(path.name + ".broken"))
_ALERTS = Table("alert", ("id",), tuple[str, bytes])
_GROUPS = Table("alert_group", ("key",), tuple[str, bytes])


class SavedGroup(msgspec.Struct):
    """What is kept of a group: when it is due, and what its receiver was notified of last."""

    labels: Mapping[str, str]
    due_s: float
    firing: list[str] = []
    notified_s: float | None = msgspec.field(name="told_s", default=None)


@dataclass(slots=True)
class Changes:
    """What has to be written; None for what is gone."""

    alerts: dict[str, Alert | None] = field(default_factory=dict)
    groups: dict[str, AlertGroup | None] = field(default_factory=dict)


Found = tuple[list[Alert], dict[str, SavedGroup]]


class RouteMemory:
    """One file; `path` None keeps nothing. OtelOfuError if another process has it."""

    def __init__(self, path: Path | None) -> None:
        self._file = SqliteTables(path, _FORM, _load, _log)
        if self._file.in_use:
            raise OtelOfuError(self._file.messages[0])

    def load(self) -> Found:
        """What was there when the file was opened: the alerts, and the groups by key."""
        return self._file.loaded

    def save(self, changes: Changes) -> bool:
        """Writes the changes as a whole; False if the disk did not take them."""
        return self._file.save(
            _change(_ALERTS, changes.alerts, msgspec.json.encode),
            _change(_GROUPS, changes.groups, _encode),
        )

    def close(self) -> None:
        self._file.close()


def _load(rows: Rows) -> Found:
    found = [msgspec.json.decode(raw, type=Alert) for _, raw in rows(_ALERTS)]
    return found, {key: msgspec.json.decode(raw, type=SavedGroup) for key, raw in rows(_GROUPS)}


def _change(table: Table, by_key: Mapping[str, T | None], encode: Callable[[T], bytes]) -> Change:
    kept = [(key, encode(value)) for key, value in by_key.items() if value is not None]
    return Change(table, kept, [(key,) for key, value in by_key.items() if value is None])


def _encode(group: AlertGroup) -> bytes:
    known = group.notified
    at_s = known.at_s if known.at_s > float("-inf") else None
    return msgspec.json.encode(SavedGroup(group.labels, group.due_s, sorted(known.firing), at_s))


FILE = "route.sqlite"


@dataclass(frozen=True, slots=True)
class RouterStats:
    """`notified`: notifications by receiver since the start, one for each of its integrations."""

    firing: int
    groups: int
    notified: Mapping[str, int]


@dataclass(slots=True)
class _Unsaved:
    alerts: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)


class Router:
    """Thread-safe. `state_dir` None keeps groups in memory only.

    The outbox needs the queues of `queue_limits(settings)`. ValueError or OSError for settings with
    a mistake (their `mistakes` names all of them), OtelOfuError for a file that cannot be made or
    written.
    """

    def __init__(
        self, settings: RouteSettings, outbox: Outbox, clock: Clock, state_dir: Path | None = None
    ) -> None:
        self._clock = clock
        options, config = settings.message_options(), settings.alertmanager
        servers = [outbox.queues[server.queue] for server in servers_of(config)]
        self._alertmanagers = AlertmanagerSender(servers, config, options)
        self._routes = build_routes(settings)
        self._dispatcher = Dispatcher(integrations_of(settings), outbox.queues, options)
        self._groups = AlertGroups(settings.max_groups)
        self._unsaved = _Unsaved()
        self._lock = threading.Lock()
        self._memory = RouteMemory(state_dir / FILE if state_dir else None)
        self._store = self._restored(clock.now_s())

    def handle(self, findings: Sequence[Finding]) -> None:
        """Takes what happened to findings. Rules on trial (`shadow`) notify nobody."""
        now_s = self._clock.now_s()
        with self._lock:
            changed = [a for d in findings if not d.shadow for a in self._store.update(clean(d))]
            self._changed(changed, now_s)

    def retain(self, fingerprints: Collection[str]) -> None:
        """Ends every alert but those of these findings: for the start, when the engine knows."""
        now_s = self._clock.now_s()
        with self._lock:
            self._changed(self._store.end_all_but(fingerprints, now_s), now_s)

    def tick(self, now_s: float) -> None:
        """Notifies what is due, and Alertmanagers again of what fires. Every second or few."""
        with self._lock:
            due = self._groups.due(now_s)
            for group in due:
                self._notify(group, now_s)
            self._alertmanagers.tick(self._store.alerts.values(), now_s)
            self._unsaved.alerts.update(self._store.forget(now_s))
            self._save()

    def stats(self) -> RouterStats:
        with self._lock:
            return RouterStats(
                len(self._store.firing), len(self._groups), dict(self._dispatcher.notified)
            )

    def close(self) -> None:
        """Ends the use of the file. What waits in the outbox stays there."""
        with self._lock:
            self._save()
            self._memory.close()

    def _changed(self, alerts: Sequence[Alert], now_s: float) -> None:
        for alert in alerts:
            self._unsaved.alerts.add(alert.id)
            if alert.firing:
                self._assign(alert, now_s)
        self._alertmanagers.push(alerts)
        self._save()

    def _assign(self, alert: Alert, now_s: float) -> None:
        for route in self._routes.matching(alert.labels):
            if route.receiver and not self._groups.holds(alert, route):
                self._unsaved.groups.add(self._groups.put(alert, route, now_s).key)
        for key in alert.groups:  # one that came back stands in its groups as it was
            group = self._groups.find(key)
            if group is not None:
                group.alerts[alert.id] = alert

    def _notify(self, group: AlertGroup, now_s: float) -> None:
        """Notifies of a group that is due, unless it is muted; then it is due again later."""
        group.due_s = now_s + group.route.timing.interval_s
        muted = group.route.muted_by(now_s)
        due = None if muted else due_notification(group, self._store.is_covered, now_s)
        if due is not None:
            self._dispatcher.dispatch(due)
            mark_notified(group, due)
        self._unsaved.alerts.update(alert.id for alert in forget_ended(group))
        self._unsaved.groups.add(group.key)
        if not group.alerts:
            self._groups.drop(group)

    def _save(self) -> None:
        unsaved = self._unsaved
        if not (unsaved.alerts or unsaved.groups):
            return
        changes = Changes(
            {id_: self._store.alerts.get(id_) for id_ in unsaved.alerts},
            {key: self._groups.find(key) for key in unsaved.groups},
        )
        if self._memory.save(changes):
            self._unsaved = _Unsaved()

    def _restored(self, now_s: float) -> AlertStore:
        alerts, kept = self._memory.load()
        for alert in alerts:
            routes = [r for r in self._routes.matching(alert.labels) if r.receiver]
            before = _Before(alert, routes, {k: kept[k] for k in alert.groups if k in kept})
            alert.groups = []
            for route in routes:
                self._rejoin(route, before, now_s)
        self._unsaved.groups.update(kept)
        restore_coverage(alerts)
        return AlertStore(alerts)

    def _rejoin(self, route: AlertRoute, before: _Before, now_s: float) -> None:
        """Into the group it was in, even one that is due; into a new one if the routes are new."""
        alert = before.alert
        found = before.group(route)
        if found is None:
            if alert.firing:
                self._groups.put(alert, route, now_s)
            return
        key, old_key = found
        if key != old_key:
            self._groups.carry_on(key, old_key)
        kept = before.kept[old_key]
        at_s = float("-inf") if kept.notified_s is None else kept.notified_s
        notified = NotifiedAlerts(frozenset(kept.firing), at_s)
        self._groups.join(alert, AlertGroup(old_key, route, kept.labels, kept.due_s, notified))


@dataclass(frozen=True, slots=True)
class _Before:
    """The groups that an alert was in before the restart, and its routes of now."""

    alert: Alert
    routes: Sequence[AlertRoute]
    kept: Mapping[str, SavedGroup]

    def group(self, route: AlertRoute) -> tuple[str, str] | None:
        """The key of the route's group of now and that of before; None if it was in none.

        The same receiver and labels are the same group, though the matchers are others now: to
        the receiver they are.
        """
        own = self._keys(route)
        taken = {key for other in self.routes for key in self._keys(other)}
        others = [key for key in self.kept if key not in taken]
        for key in own:
            if key in self.kept:
                return key, key
        for key in own:
            ending = key.removeprefix(route.path)
            if old_key := next((other for other in others if other.endswith(ending)), ""):
                return key, old_key
        return None

    def _keys(self, route: AlertRoute) -> tuple[str, str]:
        return route.group_key(self.alert.labels), route.summary_key
