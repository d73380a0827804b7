"""A GPU of several owners is one observation for each, with the part that counts for it.

Enters: a reading, and the owners that the job stage knows. Leaves: its observations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from otel_ofu.model import Attribute, Observation, Owner, Reading
from otel_ofu.model.owner import even_out

SHARE = "owner_share"
"""Registry key of the part of a GPU that counts for one of several jobs on it."""


class ReadingDeriver(Protocol):
    """One reading in, one observation out (otel_ofu.derive.Deriver)."""

    def derive(
        self,
        reading: Reading,
        parent: Reading | None = None,
        owner: Mapping[str, Attribute] | None = None,
    ) -> Observation: ...


class DeviceOwner(Protocol):
    """One job on one device (otel_ofu.jobs.JobOwner), and the part that counts for it."""

    @property
    def attributes(self) -> Mapping[str, str]: ...

    @property
    def share(self) -> float: ...


@dataclass(frozen=True, slots=True)
class _SourceOwner:
    attributes: Mapping[str, str]
    share: float


def named_owners(reading: Reading) -> tuple[Owner, ...]:
    """The owners that the source reports, each with the name of its job."""
    return tuple(owner.named(reading.source) for owner in reading.owners)


def derive_owned(
    deriver: ReadingDeriver,
    reading: Reading,
    parent: Reading | None = None,
    owners: Sequence[DeviceOwner] = (),
) -> list[Observation]:
    """The observation of each owner: of `owners`, else of those that the source reports."""
    rows = owners or _of_source(reading)
    if not rows:
        return [deriver.derive(reading, parent)]
    return [_shared(deriver.derive(reading, parent, row.attributes), row.share) for row in rows]


def _of_source(reading: Reading) -> Sequence[DeviceOwner]:
    owners = named_owners(reading)
    shares = even_out([owner.share for owner in owners])
    return [
        _SourceOwner(owner.attributes, share) for owner, share in zip(owners, shares, strict=True)
    ]


def _shared(observation: Observation, share: float) -> Observation:
    if share >= 1:
        return observation
    return replace(observation, values={**observation.values, SHARE: share})
