"""What people are told of: a rule on an entity, with its likely causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from otel_ofu.model.observation import Entity

Severity = Literal["info", "warning", "error", "critical"]
FindingChange = Literal["opened", "updated", "resolved"]


@dataclass(frozen=True, slots=True)
class RankedCause:
    """A likely cause of a finding. `score` is 0..1; the texts hold the numbers they rest on.

    `evidence` speaks for it, `against` against it, `unchecked` could not be read and counts as
    neither. `next_steps` are sentences with the exact command where there is one.
    """

    id: str
    title: str
    score: float
    evidence: Sequence[str] = ()
    against: Sequence[str] = ()
    unchecked: Sequence[str] = ()
    remark: str = ""
    next_steps: Sequence[str] = ()
    link: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What people are told of a finding when it opens, changes or ends.

    `entity` None: a summary of `count` findings. `since_s` is when the condition began to hold,
    `at_s` when this was said (Unix seconds). `labels` are the identity for routing, `annotations`
    texts. `causes` stand most likely first; empty means that no known cause fits. `facts` are
    numbers worth a look by name, such as `ofu`, `ofu_before`, `gpu_hours_lost`.
    """

    kind: FindingChange
    rule: str
    entity: Entity | None
    fingerprint: str
    severity: Severity
    at_s: float
    since_s: float
    summary: str
    reason: str = ""
    value: float | None = None
    threshold: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    causes: Sequence[RankedCause] = ()
    facts: Mapping[str, float] = field(default_factory=dict)
    link: str = ""
    shadow: bool = False
    count: int = 1
