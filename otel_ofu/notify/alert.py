"""What is told, as it is kept: a diagnosis with the labels it was opened with.

Enters: diagnoses. Leaves: alerts whose identity does not change while they are open.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from otel_ofu.model import Diagnosis

SEVERITIES = ("info", "warning", "error", "critical")
ENTITIES = ("gpu", "job", "node")
SOON_S = 0.001


@dataclass(slots=True)
class Alert:
    """`ends_s` None: firing. `groups`: keys of the groups that it is in.

    `labels` are those of the moment when it opened: attributes of an entity may change while a
    finding is open (a job gets its name late), and an identity that changes would never resolve.
    """

    id: str
    diagnosis: Diagnosis
    labels: Mapping[str, str]
    starts_s: float
    ends_s: float | None = None
    groups: list[str] = field(default_factory=list)

    @property
    def firing(self) -> bool:
        return self.ends_s is None

    @property
    def rank(self) -> tuple[bool, int, float]:
        """Sorts what is worst and oldest first, what has ended last."""
        severity = self.labels.get("severity", "")
        known = SEVERITIES.index(severity) if severity in SEVERITIES else -1
        return (not self.firing, -known, self.starts_s)


def clean(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis as JSON can hold it: without numbers that are none, and valid Unicode alone.

    A lone surrogate or a NaN would otherwise stop a whole batch.
    """
    value, threshold = diagnosis.value, diagnosis.threshold
    said = replace(
        diagnosis,
        value=value if value is not None and math.isfinite(value) else None,
        threshold=threshold if threshold is not None and math.isfinite(threshold) else None,
        facts={name: fact for name, fact in diagnosis.facts.items() if math.isfinite(fact)},
    )
    try:
        msgspec.json.encode(said)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(said), ensure_ascii=False)
        return msgspec.json.decode(text.encode("utf-8", "replace"), type=Diagnosis)
    return said


def opened(diagnosis: Diagnosis) -> Alert:
    """A firing alert. Its id is made of the finding's and of what the rule says of it."""
    said = sorted({**diagnosis.labels, "severity": diagnosis.severity}.items())
    mark = hashlib.sha256(repr(said).encode()).hexdigest()[:8]
    id_ = f"{diagnosis.fingerprint}-{mark}"
    return Alert(id_, diagnosis, labels_of(diagnosis), diagnosis.since_s)


def labels_of(diagnosis: Diagnosis) -> dict[str, str]:
    """Attributes of the entity, the rule's labels over them, and what the agent itself knows.

    Dots become underscores (Alertmanager before 0.27 refuses them); empty values are left out.
    """
    entity = diagnosis.entity
    found: dict[str, str] = {}
    if entity is not None:
        found = {label_name(k): _text(v) for k, v in entity.attributes.items()}
        found.setdefault(_ID_LABEL[entity.kind], entity.id)
        found["ofu_entity"] = entity.kind
    found |= {label_name(k): _text(v) for k, v in diagnosis.labels.items()}
    found |= {"alertname": _text(diagnosis.rule), "severity": diagnosis.severity}
    return {name: value for name, value in found.items() if value}


def label_name(name: str) -> str:
    """`ofu.job.id` -> `ofu_job_id`; what no label may hold becomes an underscore."""
    plain = name.replace(".", "_")
    if plain.isascii() and plain.isidentifier():
        return plain
    clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return f"_{clean}" if clean[:1].isdigit() or not clean else clean


def iso(time_s: float) -> str:
    """RFC 3339 in UTC with milliseconds."""
    text = datetime.fromtimestamp(time_s, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def ended(alert: Alert, at_s: float) -> None:
    """Marks the end; never before the beginning, which Alertmanager refuses."""
    alert.ends_s = max(at_s, alert.starts_s + SOON_S)


def encode(alert: Alert) -> bytes:
    return msgspec.json.encode(alert)


def decode(raw: bytes) -> Alert:
    """msgspec.ValidationError or DecodeError for what is none."""
    return msgspec.json.decode(raw, type=Alert)


_ID_LABEL = {"gpu": "hw_id", "job": "ofu_job_id", "node": "host_name"}


def _text(value: object) -> str:
    return str(value).strip()
