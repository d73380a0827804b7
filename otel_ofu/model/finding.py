"""The one noun from verdict to person: a rule on an entity over time.

The rules open, update and end it; diagnosis adds causes and facts; the event, the alert, the
notification and the card are rendered from it. Thousands may open in one round, so they are
Structs: made and changed in a fraction of the time that a dataclass takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from otel_ofu.model.observation import Entity, EntityKind

Severity = Literal["info", "warning", "error", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error", "critical")
"""From the mildest to the worst."""

FindingChange = Literal["opened", "updated", "resolved"]
FindingState = Literal["pending", "firing", "recovering", "resolved"]
Reason = Literal["", "recovered", "no_data", "rule_removed", "rule_changed", "taken_in"]


class Evidence(msgspec.Struct, frozen=True):
    """One comparison at one entity, in numbers; None for what is unknown.

    `condition` is its text, `metric` what it is about (`ofu`, `flag.NCCL_DEBUG`). `window_s`: the
    longest window in it, 0 for last values. `coverage`: the smallest part of a window that had
    data, 0..1.
    """

    condition: str
    metric: str
    value: float | None
    threshold: float | None
    window_s: float = 0.0
    coverage: float | None = None


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


class Finding(msgspec.Struct, frozen=True):
    """A rule on an entity, as it was at `at_s` (Unix seconds, as all times).

    `kind` is what happened then. `entity` None: a summary of `count` findings beyond the rule's
    limit. `since_s`: when the condition began to hold; `fired_s`: when it had held long enough;
    `calm_s` and `unknown_s`: since when it recovers, since when nothing is known.
    `severity` is the rule's, unless diagnosis lowered it. `labels` are those of the rule and the
    identity for routing, `annotations` texts. `value` and `threshold` are those of the first
    evidence, which decided the verdict. `candidates` are the causes that the rule lists; `causes`
    stand most likely first, empty when no known cause fits. `facts` are numbers by name, such as
    `ofu`, `ofu_before`, `gpu_hours_lost`. `notified`: by itself, not within a summary. `incident`:
    the fingerprint of the wider finding that covers it; empty for none.

    The fields up to `count` are those of the state and the logs that earlier versions wrote.
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
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    causes: Sequence[RankedCause] = ()
    facts: Mapping[str, float] = {}
    link: str = ""
    shadow: bool = False
    count: int = 1
    each: EntityKind = "gpu"
    state: FindingState = "firing"
    fired_s: float | None = None
    calm_s: float | None = None
    unknown_s: float | None = None
    evidence: Sequence[Evidence] = ()
    candidates: Sequence[str] = ()
    notified: bool = True
    incident: str = ""

    @property
    def subject(self) -> str:
        """What it is about, for people: the entity's id, or how many there are."""
        return self.entity.id if self.entity else f"{self.count} {self.each}s"

    @property
    def window_s(self) -> float | None:
        return self.evidence[0].window_s if self.evidence else None

    @property
    def coverage(self) -> float | None:
        """The smallest part of a window that had data, over the evidence."""
        known = [e.coverage for e in self.evidence if e.coverage is not None]
        return min(known, default=None)
