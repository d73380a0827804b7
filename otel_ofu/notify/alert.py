"""Alerts: findings as they are kept, with the labels that they were opened with; notifications.

Enters: findings. Leaves: the alerts that they opened, changed or ended; the identity of an alert
does not change while it is open. A notification is what a receiver is sent at once, some alerts of
one group: a plain value that every notifier encodes in its own way.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import msgspec
from msgspec.structs import replace

from otel_ofu.model import SEVERITIES, Finding
from otel_ofu.model.labels import entity_labels, is_label_name, label_name

# A server that was restarted after it took an end gets it again, as from Prometheus.
# Source: Prometheus, rules/alerting.go, resolvedRetention.
RETENTION_S = 900.0
# The least that two times written with milliseconds can differ by.
_SHORTEST_S = 0.001


class Alert(msgspec.Struct, rename={"finding": "diagnosis"}):
    """`ends_s` None: firing. `groups`: keys of the groups that it is in.

    `labels` are those of the moment when it opened: attributes of an entity may change while a
    finding is open (a job gets its name late), and an identity that changes would never resolve.
    The key `diagnosis` is that of stored alerts.
    """

    id: str
    finding: Finding
    labels: Mapping[str, str]
    starts_s: float
    ends_s: float | None = None
    groups: list[str] = []

    @property
    def firing(self) -> bool:
        return self.ends_s is None

    @property
    def rank(self) -> tuple[bool, int, float]:
        """Sorts what is worst and oldest first, what has ended last."""
        severity = self.labels.get("severity", "")
        known = SEVERITIES.index(severity) if severity in SEVERITIES else -1
        return (not self.firing, -known, self.starts_s)


def clean(finding: Finding) -> Finding:
    """The finding as JSON can hold it: finite numbers and valid Unicode alone.

    A lone surrogate or a NaN would otherwise stop a whole batch.
    """
    value, threshold = finding.value, finding.threshold
    cleaned = replace(
        finding,
        value=value if value is not None and math.isfinite(value) else None,
        threshold=threshold if threshold is not None and math.isfinite(threshold) else None,
        facts={name: fact for name, fact in finding.facts.items() if math.isfinite(fact)},
    )
    try:
        msgspec.json.encode(cleaned)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(cleaned), ensure_ascii=False)
        return msgspec.json.decode(text.encode("utf-8", "replace"), type=Finding)
    return cleaned


def opened(finding: Finding) -> Alert:
    """A firing alert. Its id is made of the finding's and of the texts of the rule."""
    identity = sorted({**finding.labels, "severity": finding.severity}.items())
    mark = hashlib.sha256(repr(identity).encode()).hexdigest()[:8]
    id_ = f"{finding.fingerprint}-{mark}"
    return Alert(id_, finding, labels_of(finding), finding.since_s)


def labels_of(finding: Finding) -> dict[str, str]:
    """Attributes of the entity, the rule's labels over them, and what the agent itself knows.

    Attributes are named as on a Prometheus series; empty values are left out.
    """
    found = entity_labels(finding.entity)
    if finding.entity is not None:
        found["ofu_entity"] = finding.entity.kind
    found |= {written_label(name): text for name, text in finding.labels.items()}
    found |= {"alertname": finding.rule, "severity": finding.severity}
    return {name: text.strip() for name, text in found.items() if text.strip()}


def written_label(name: str) -> str:
    """A label as people write it: by its own name, or by that of the attribute (`ofu.job.id`)."""
    return name if is_label_name(name) else label_name(name)


def iso(time_s: float) -> str:
    """RFC 3339 in UTC with milliseconds."""
    text = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def ended(alert: Alert, at_s: float) -> None:
    """Marks the end; never before the beginning, which Alertmanager refuses."""
    alert.ends_s = max(at_s, alert.starts_s + _SHORTEST_S)


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


def restore_coverage(alerts: Iterable[Alert]) -> None:
    """Gives the GPUs of stored alerts the incident of their node or job.

    Earlier versions stored none, and kept the alerts of GPUs quiet by these labels.
    """
    firing = [alert for alert in alerts if alert.firing]
    wide = {(key, a.labels.get(key)): a for a in firing if (key := _COVERS.get(_kind(a), ""))}
    for alert in firing:
        if _kind(alert) == "gpu" and not alert.finding.incident:
            for key in _COVERS.values():
                other = wide.get((key, alert.labels.get(key)))
                if other is not None and other.rank[1] <= alert.rank[1]:
                    alert.finding = replace(alert.finding, incident=other.finding.fingerprint)
                    break


_COVERS = {"node": "host_name", "job": "ofu_job_id"}


def _kind(alert: Alert) -> str:
    return alert.labels.get("ofu_entity", "")


def _removed(finding: Finding, at_s: float) -> Finding:
    return replace(finding, kind="resolved", at_s=at_s, reason="rule_removed")


def _expired(alert: Alert, now_s: float) -> bool:
    return alert.ends_s is not None and not alert.groups and now_s - alert.ends_s > RETENTION_S


SIGNAL = "notification"
"""The `signal` of a body that holds one notification, for limits and messages."""

Status = Literal["firing", "resolved"]


@dataclass(frozen=True, slots=True)
class Notification:
    """`alerts` stand worst first, ended ones last.

    `id` is another for every notification of every integration, `group_key` the same for all of one
    group. `news`: an alert fires that the receiver does not know, or it is time to repeat; False:
    there are only ends.
    """

    receiver: str
    group_key: str
    group_labels: Mapping[str, str]
    alerts: Sequence[Alert]
    at_s: float
    news: bool = True
    id: str = ""

    @property
    def status(self) -> Status:
        return "firing" if any(alert.firing for alert in self.alerts) else "resolved"

    @property
    def firing(self) -> Sequence[Alert]:
        return [alert for alert in self.alerts if alert.firing]


def common(maps: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all of them have alike."""
    if not maps:
        return {}
    first, *rest = maps
    return {k: v for k, v in first.items() if all(other.get(k) == v for other in rest)}
