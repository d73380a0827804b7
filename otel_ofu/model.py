"""The nouns. Plain frozen values; no I/O, no clock, no vendor library.

Numbers carry their unit in the name (`_s`, `_hz`, `_bytes`); none means a ratio 0..1.
All times are Unix seconds as float.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

Attribute = str | int | float | bool


class GapReason(StrEnum):
    """Why a value is absent. An absent value is never zero, carried forward or clamped."""

    NOT_SUPPORTED = "not_supported"
    NOT_PERMITTED = "not_permitted"
    NOT_READY = "not_ready"
    STALE = "stale"
    OUT_OF_RANGE = "out_of_range"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Gap:
    """An absent value: the reason, and the words of whoever did not give it."""

    reason: GapReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a value speaks about, (start, end]; equal ends for an instant."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU or MIG instance, as its driver describes it.

    `uuid` is the identity (`GPU-…`, `MIG-…`, or what the vendor's exporter gives).
    `sm_share` is the part of the parent's SMs that a MIG instance owns, in (0, 1]; 1 otherwise.
    """

    uuid: str
    index: int | None = None
    model: str = ""
    vendor: str = "nvidia"
    pci_address: str = ""
    parent: str = ""
    sm_share: float = 1.0
    mig_profile: str = ""
    mig_instance_id: int | None = None
    serial: str = ""
    driver_version: str = ""
    architecture: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """One device, one read: values by registry key in catalogue units, and the gaps.

    A key is in `values` or in `gaps`, never in both. `owner` holds what the source itself says
    about whose GPU it is (OpenTelemetry attribute names, e.g. `k8s.pod.name`, `ofu.job.id`).
    `quality` is empty for a true tensor measurement, or a word such as `busy_proxy`.
    """

    device: Device
    window: Window
    source: str
    values: Mapping[str, float]
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    owner: Mapping[str, str] = field(default_factory=dict)
    quality: str = ""


EntityKind = Literal["gpu", "job", "node"]


@dataclass(frozen=True, slots=True)
class Entity:
    """What a metric belongs to. `id` is unique within its kind; attributes are OTel names."""

    kind: EntityKind
    id: str
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Observation:
    """All that is known of one entity over one window: points that share it, and the gaps.

    `starts_s` gives the start of counting for cumulative counters (registry kind `counter`).
    """

    entity: Entity
    window: Window
    values: Mapping[str, float]
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    starts_s: Mapping[str, float] = field(default_factory=dict)


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
