"""The alerts that are open, and for a while those that ended.

Enters: diagnoses. Leaves: the alerts that they opened, changed or ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from otel_ofu.model import Diagnosis
from otel_ofu.notify.alert import Alert, ended, opened

# A server that was restarted after it took an end learns of it again, as from Prometheus.
# Source: Prometheus, rules/alerting.go, resolvedRetention.
KEPT_S = 900.0


class Book:
    """Alerts by id; of each finding at most one fires."""

    def __init__(self, alerts: Iterable[Alert] = ()) -> None:
        self.alerts = {alert.id: alert for alert in alerts}
        self._firing = {a.diagnosis.fingerprint: a for a in self.alerts.values() if a.firing}

    @property
    def firing(self) -> Collection[Alert]:
        return self._firing.values()

    def take(self, said: Diagnosis) -> Iterator[Alert]:
        """The alerts that change. One whose labels are others now ends, and another opens."""
        known = self._firing.get(said.fingerprint)
        if said.kind == "resolved":
            yield self._end(known or opened(said), said)
            return
        wanted = opened(said)
        if known is not None and known.id != wanted.id:
            yield self._end(known, replace(said, kind="resolved", reason="rule_changed"))
            known = None
        yield self._go_on(known, said) if known else self._open(wanted)

    def end_all_but(self, fingerprints: Collection[str], at_s: float) -> list[Alert]:
        """Ends what nobody vouches for any more."""
        lost = [a for f, a in self._firing.items() if f not in fingerprints]
        return [self._end(a, _gone(a.diagnosis, at_s)) for a in lost]

    def forget(self, now_s: float) -> list[str]:
        """Drops what ended long ago and needs no telling; the ids."""
        gone = [a.id for a in self.alerts.values() if _is_over(a, now_s)]
        for id_ in gone:
            del self.alerts[id_]
        return gone

    def _open(self, alert: Alert) -> Alert:
        """One that ended a moment ago comes back with the groups that it was in."""
        before = self.alerts.get(alert.id)
        alert.groups = before.groups if before else []
        self.alerts[alert.id] = self._firing[alert.diagnosis.fingerprint] = alert
        return alert

    def _go_on(self, alert: Alert, said: Diagnosis) -> Alert:
        alert.diagnosis = said
        return alert

    def _end(self, alert: Alert, said: Diagnosis) -> Alert:
        """The causes that were found while it fired are still of interest."""
        alert.diagnosis = said if said.causes else replace(said, causes=alert.diagnosis.causes)
        ended(alert, said.at_s)
        self.alerts[alert.id] = alert
        self._firing.pop(said.fingerprint, None)
        return alert


def _gone(said: Diagnosis, at_s: float) -> Diagnosis:
    return replace(said, kind="resolved", at_s=at_s, reason="rule_removed")


def _is_over(alert: Alert, now_s: float) -> bool:
    return alert.ends_s is not None and not alert.groups and now_s - alert.ends_s > KEPT_S
