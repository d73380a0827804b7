"""From diagnoses to those who act on them: the routing of one agent.

Enters: diagnoses and ticks. Leaves: bodies in the outbox, which senders deliver. What was told is
kept in SQLite: after a restart alerts go on, and nobody is told the same again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from otel_ofu.model import Diagnosis
from otel_ofu.model.clock import Clock
from otel_ofu.notify.alert import Alert, clean
from otel_ofu.notify.announcer import Announcer
from otel_ofu.notify.book import Book
from otel_ofu.notify.feed import AlertmanagerFeed
from otel_ofu.notify.grouping import (
    Group,
    Groups,
    Told,
    forget_ended,
    telling_of,
    was_told,
)
from otel_ofu.notify.inhibition import Inhibition
from otel_ofu.notify.memory import Changes, Kept, RouteMemory
from otel_ofu.notify.routes import Route, build_routes
from otel_ofu.notify.settings import RouteSettings
from otel_ofu.notify.targets import message_options, servers_of, targets_of
from otel_ofu.outbox.queues import Outbox

_log = logging.getLogger(__name__)

FILE = "route.sqlite"


@dataclass(frozen=True, slots=True)
class RouterStats:
    """`told`: notifications by receiver since the start; one that has two targets counts twice."""

    firing: int
    groups: int
    told: Mapping[str, int]


@dataclass(slots=True)
class _Unsaved:
    alerts: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)


class Router:
    """Thread-safe. `state_dir` None keeps what was told in memory alone.

    The outbox needs the queues of `queue_limits(settings)`. ValueError or OSError for settings
    that are no use (`check` names all that is wrong with them), OtelOfuError for a file that
    cannot be made or written.
    """

    def __init__(
        self,
        settings: RouteSettings,
        outbox: Outbox,
        clock: Clock,
        environ: Mapping[str, str],
        state_dir: Path | None = None,
    ) -> None:
        self._clock = clock
        targets = targets_of(settings, clock, environ)
        config = settings.alertmanager
        servers = [outbox.queues[s.queue] for s in servers_of(settings, clock, environ)]
        self._feed = AlertmanagerFeed(
            servers, config.resend_delay, config.labels, message_options(settings)
        )
        self._routes = build_routes(settings)
        self._announcer = Announcer(targets, outbox.queues)
        self._groups = Groups(settings.max_groups)
        self._unsaved = _Unsaved()
        self._lock = threading.Lock()
        self._memory = RouteMemory(state_dir / FILE if state_dir else None)
        self._book = self._restored(clock.now_s())

    def handle(self, diagnoses: Sequence[Diagnosis]) -> None:
        """Takes what the engine says. Rules that are on trial (`shadow`) are told nobody."""
        now_s = self._clock.now_s()
        with self._lock:
            changed = [a for d in diagnoses if not d.shadow for a in self._book.take(clean(d))]
            self._changed(changed, now_s)

    def retain(self, fingerprints: Collection[str]) -> None:
        """Ends every alert but those of these findings: for the start, when the engine knows."""
        now_s = self._clock.now_s()
        with self._lock:
            self._changed(self._book.end_all_but(fingerprints, now_s), now_s)

    def tick(self, now_s: float) -> None:
        """Tells what is due, and Alertmanagers again what fires. Every second or few."""
        with self._lock:
            due = self._groups.due(now_s)
            if due:
                inhibition = Inhibition(self._book.firing)
                for group in due:
                    self._look_at(group, inhibition, now_s)
            self._feed.tick(self._book.alerts.values(), now_s)
            self._unsaved.alerts.update(self._book.forget(now_s))
            self._save()

    def stats(self) -> RouterStats:
        with self._lock:
            return RouterStats(
                len(self._book.firing), len(self._groups), dict(self._announcer.told)
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
                self._place(alert, now_s)
        self._feed.push(alerts)
        self._save()

    def _place(self, alert: Alert, now_s: float) -> None:
        for route in self._routes.matching(alert.labels):
            if route.receiver and not self._groups.holds(alert, route):
                self._unsaved.groups.add(self._groups.put(alert, route, now_s).key)
        for key in alert.groups:  # one that came back stands in its groups as it was
            group = self._groups.find(key)
            if group is not None:
                group.alerts[alert.id] = alert

    def _look_at(self, group: Group, inhibition: Inhibition, now_s: float) -> None:
        """Tells a group whose time has come, unless it is muted; then it is looked at again."""
        group.due_s = now_s + group.route.timing.interval_s
        if not group.route.muted_by(now_s):
            telling = telling_of(group, lambda a: inhibition.source_of(a) is not None, now_s)
            if telling is not None:
                self._announcer.announce(telling, now_s)
                was_told(telling, now_s)
        self._unsaved.alerts.update(alert.id for alert in forget_ended(group))
        self._unsaved.groups.add(group.key)
        if not group.alerts:
            self._groups.drop(group)

    def _save(self) -> None:
        unsaved = self._unsaved
        if not (unsaved.alerts or unsaved.groups):
            return
        changes = Changes(
            {id_: self._book.alerts.get(id_) for id_ in unsaved.alerts},
            {key: self._groups.find(key) for key in unsaved.groups},
        )
        if self._memory.save(changes):
            self._unsaved = _Unsaved()

    def _restored(self, now_s: float) -> Book:
        alerts, kept = self._memory.load()
        for alert in alerts:
            routes = [r for r in self._routes.matching(alert.labels) if r.receiver]
            before = _Before(alert, routes, {k: kept[k] for k in alert.groups if k in kept})
            alert.groups = []
            for route in routes:
                self._rejoin(route, before, now_s)
        self._unsaved.groups.update(kept)
        return Book(alerts)

    def _rejoin(self, route: Route, before: _Before, now_s: float) -> None:
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
        told_s = float("-inf") if kept.told_s is None else kept.told_s
        told = Told(frozenset(kept.firing), told_s)
        self._groups.join(alert, Group(old_key, route, kept.labels, kept.due_s, told))


@dataclass(frozen=True, slots=True)
class _Before:
    """The groups that an alert was in before the restart, and its routes of now."""

    alert: Alert
    routes: Sequence[Route]
    kept: Mapping[str, Kept]

    def group(self, route: Route) -> tuple[str, str] | None:
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

    def _keys(self, route: Route) -> tuple[str, str]:
        return route.group_key(self.alert.labels), route.summary_key
