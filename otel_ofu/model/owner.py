"""Whose a device is, as a source reports it, and how a device is shared.

Plain frozen values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

JOB_ID = "ofu.job.id"
JOB_SOURCE = "ofu.job.source"
POD_NAME = "k8s.pod.name"
NAMESPACE_NAME = "k8s.namespace.name"

_ROUNDING = 1e-6
"""Of parts that are written in decimal, as thirds are."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One job or pod that a device is given to.

    `attributes` are OpenTelemetry names (registry.yaml). `share` in (0, 1] is the part of the
    device that counts for it; None for an even part of what the other owners leave.
    """

    attributes: Mapping[str, str] = field(default_factory=dict)
    share: float | None = None

    @property
    def job_id(self) -> str:
        """The job, else `namespace/pod`; empty where the attributes name neither."""
        pod = self.attributes.get(POD_NAME, "")
        of_pod = pod and f"{self.attributes.get(NAMESPACE_NAME, '')}/{pod}"
        return self.attributes.get(JOB_ID) or of_pod

    def named(self, source: str) -> Owner:
        """With the attributes that name the job; `source` is who reports it."""
        if not self.job_id:
            return self
        named = {JOB_SOURCE: source, **self.attributes, JOB_ID: self.job_id}
        return Owner(named, self.share)


def even_out(shares: Sequence[float | None]) -> tuple[float, ...]:
    """The parts of one device, which add up to 1 at most, from those that are stated.

    Those that are not stated (None) have even parts of the rest. Where the stated parts add up to
    more than 1, or leave nothing for the others, they cannot be of one device: all are even.
    """
    stated = [share for share in shares if share is not None]
    rest, others = 1 - sum(stated), len(shares) - len(stated)
    if rest < -_ROUNDING or (others and rest <= _ROUNDING):
        return (1 / len(shares),) * len(shares)
    return tuple(rest / others if share is None else share for share in shares)


def agreed(owners: Iterable[Owner]) -> dict[str, str]:
    """The attributes that are equal for all owners, so true of the device as a whole."""
    items = [set(owner.attributes.items()) for owner in owners]
    return dict(sorted(set.intersection(*items))) if items else {}
