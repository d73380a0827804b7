"""The alerts that are open, and for a while those that ended.

Enters: diagnoses. Leaves: the alerts that they opened, changed or ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from otel_ofu.model import Diagnosis
from otel_ofu.notify.alert import Alert, ended, opened

# A server that was restarted after it took an end gets it again, as from Prometheus.
# Source: Prometheus, rules/alerting.go, resolvedRetention.
RETENTION_S = 900.0


class AlertStore:
    """Alerts by id; of each finding at most one fires."""

    def __init__(self, alerts: Iterable[Alert] = ()) -> None:
        self.alerts = {alert.id: alert for alert in alerts}
        self._firing = {a.diagnosis.fingerprint: a for a in self.alerts.values() if a.firing}

    @property
    def firing(self) -> Collection[Alert]:
        return self._firing.values()

    def is_covered(self, alert: Alert) -> bool:
        """Whether the alert of a wider finding, which it belongs to, fires."""
        return alert.diagnosis.incident in self._firing

    def update(self, diagnosis: Diagnosis) -> Iterator[Alert]:
        """The alerts that change. One whose labels are others now ends, and another opens."""
        known = self._firing.get(diagnosis.fingerprint)
        if diagnosis.kind == "resolved":
            yield self._end(known or opened(diagnosis), diagnosis)
            return
        wanted = opened(diagnosis)
        if known is not None and known.id != wanted.id:
            yield self._end(known, replace(diagnosis, kind="resolved", reason="rule_changed"))
            known = None
        yield self._continue(known, diagnosis) if known else self._open(wanted)

    def end_all_but(self, fingerprints: Collection[str], at_s: float) -> list[Alert]:
        """Ends the alerts of findings that are not among these."""
        lost = [a for f, a in self._firing.items() if f not in fingerprints]
        return [self._end(a, _removed(a.diagnosis, at_s)) for a in lost]

    def forget(self, now_s: float) -> list[str]:
        """Drops what ended long ago and was notified; the ids."""
        gone = [a.id for a in self.alerts.values() if _expired(a, now_s)]
        for id_ in gone:
            del self.alerts[id_]
        return gone

    def _open(self, alert: Alert) -> Alert:
        """One that ended a moment ago comes back with the groups that it was in."""
        before = self.alerts.get(alert.id)
        alert.groups = before.groups if before else []
        self.alerts[alert.id] = self._firing[alert.diagnosis.fingerprint] = alert
        return alert

    def _continue(self, alert: Alert, diagnosis: Diagnosis) -> Alert:
        alert.diagnosis = diagnosis
        return alert

    def _end(self, alert: Alert, diagnosis: Diagnosis) -> Alert:
        """The causes that were found while it fired are still of interest."""
        alert.diagnosis = (
            diagnosis if diagnosis.causes else replace(diagnosis, causes=alert.diagnosis.causes)
        )
        ended(alert, diagnosis.at_s)
        self.alerts[alert.id] = alert
        self._firing.pop(diagnosis.fingerprint, None)
        return alert


def _removed(diagnosis: Diagnosis, at_s: float) -> Diagnosis:
    return replace(diagnosis, kind="resolved", at_s=at_s, reason="rule_removed")


def _expired(alert: Alert, now_s: float) -> bool:
    return alert.ends_s is not None and not alert.groups and now_s - alert.ends_s > RETENTION_S
