"""The alerts that are open, and for a while those that ended.

Enters: findings. Leaves: the alerts that they opened, changed or ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from otel_ofu.model import Finding
from otel_ofu.notify.alert import Alert, ended, opened

# A server that was restarted after it took an end gets it again, as from Prometheus.
# Source: Prometheus, rules/alerting.go, resolvedRetention.
RETENTION_S = 900.0


class AlertStore:
    """Alerts by id; of each finding at most one fires."""

    def __init__(self, alerts: Iterable[Alert] = ()) -> None:
        self.alerts = {alert.id: alert for alert in alerts}
        self._firing = {a.finding.fingerprint: a for a in self.alerts.values() if a.firing}

    @property
    def firing(self) -> Collection[Alert]:
        return self._firing.values()

    def is_covered(self, alert: Alert) -> bool:
        """Whether the alert of a wider finding, which it belongs to, fires."""
        return alert.finding.incident in self._firing

    def update(self, finding: Finding) -> Iterator[Alert]:
        """The alerts that change. One whose labels are others now ends, and another opens."""
        known = self._firing.get(finding.fingerprint)
        if finding.kind == "resolved":
            yield self._end(known or opened(finding), finding)
            return
        wanted = opened(finding)
        if known is not None and known.id != wanted.id:
            yield self._end(known, replace(finding, kind="resolved", reason="rule_changed"))
            known = None
        yield self._continue(known, finding) if known else self._open(wanted)

    def end_all_but(self, fingerprints: Collection[str], at_s: float) -> list[Alert]:
        """Ends the alerts of findings that are not among these."""
        lost = [a for f, a in self._firing.items() if f not in fingerprints]
        return [self._end(a, _removed(a.finding, at_s)) for a in lost]

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
        self.alerts[alert.id] = self._firing[alert.finding.fingerprint] = alert
        return alert

    def _continue(self, alert: Alert, finding: Finding) -> Alert:
        alert.finding = finding
        return alert

    def _end(self, alert: Alert, finding: Finding) -> Alert:
        """The causes that were found while it fired are still of interest."""
        alert.finding = finding if finding.causes else replace(finding, causes=alert.finding.causes)
        ended(alert, finding.at_s)
        self.alerts[alert.id] = alert
        self._firing.pop(finding.fingerprint, None)
        return alert


def _removed(finding: Finding, at_s: float) -> Finding:
    return replace(finding, kind="resolved", at_s=at_s, reason="rule_removed")


def _expired(alert: Alert, now_s: float) -> bool:
    return alert.ends_s is not None and not alert.groups and now_s - alert.ends_s > RETENTION_S
