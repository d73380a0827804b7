"""One round of reading: source -> derive -> whoever listens.

Enters: the scheduled instant. Leaves: observations of every known device, to `emit`. When the
source is late or fails, the devices that it had become gaps; the round goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from otel_ofu.app.source_reader import ReadResult, SourceReader
from otel_ofu.model import Attribute, Device, Gap, GapReason, Observation, Reading, Window

log = logging.getLogger(__name__)


class ReadingDeriver(Protocol):
    """One reading in, one observation out (otel_ofu.derive.Deriver)."""

    def derive(
        self,
        reading: Reading,
        parent: Reading | None = None,
        owner: Mapping[str, Attribute] | None = None,
    ) -> Observation: ...

    def retain(self, entity_ids: Collection[str]) -> None: ...


class DeviceOwner(Protocol):
    """One job on one device (otel_ofu.jobs.DeviceOwner); the shares of a device add up to 1."""

    @property
    def attributes(self) -> Mapping[str, str]: ...

    @property
    def share(self) -> float: ...


class SamplerMeter(Protocol):
    """Where the sampler counts its own work."""

    def sampled(self, source: str, seconds: float) -> None: ...

    def missed(self, source: str, reason: str) -> None: ...


Emit = Callable[[Sequence[Observation]], None]
Owners = Callable[[float], Mapping[str, Sequence[DeviceOwner]]]

SHARE = "owner_share"
"""Registry key of the part of a GPU that counts for one of several jobs on it."""


class Sampler:
    """Owns one reader. `tick` belongs to one thread and never raises because of the source.

    `budget_s` is the longest that a round waits for the source.
    """

    def __init__(
        self,
        reader: SourceReader,
        deriver: ReadingDeriver,
        emit: Emit,
        *,
        budget_s: float,
        meter: SamplerMeter,
    ) -> None:
        self._reader = reader
        self._deriver = deriver
        self._emit = emit
        self._budget_s = budget_s
        self._meter = meter
        self._known: dict[str, Reading] = {}
        self._message = ""
        self.owners: Owners | None = None
        """Who owns the devices at an instant; set before the first round, if at all."""

    def tick(self, now_s: float) -> None:
        """Reads once. `now_s` is the scheduled instant in Unix seconds."""
        answer = self._reader.read(now_s, self._budget_s)
        self._count(answer)
        readings = self._gaps(answer, now_s) if answer.trouble else answer.readings
        self._known = {reading.device.uuid: reading for reading in readings}
        self._emit(self._derived(readings, now_s))

    def devices(self) -> list[Device]:
        """The devices of the last round."""
        return [reading.device for reading in self._known.values()]

    def close(self, deadline_s: float) -> None:
        """Ends the reader; waits for a call that hangs no longer than `deadline_s`."""
        self._reader.close(deadline_s)

    def source_owners(self) -> dict[str, Mapping[str, str]]:
        """What the source itself reports of the owners, by device, as of the last round."""
        return {uuid: reading.owner for uuid, reading in self._known.items() if reading.owner}

    def _derived(self, readings: Sequence[Reading], now_s: float) -> list[Observation]:
        """A MIG instance is derived with the reading of its GPU, which has the clock.

        A GPU with several owners is one observation for each, with its share.
        """
        owners = self.owners(now_s) if self.owners else {}
        observations: list[Observation] = []
        for reading in readings:
            parent = self._known.get(reading.device.parent)
            rows = owners.get(reading.device.uuid, ())
            if not rows:
                observations.append(self._deriver.derive(reading, parent))
            for row in rows:
                seen = self._deriver.derive(reading, parent, row.attributes)
                observations.append(_shared(seen, row.share))
        self._deriver.retain([observation.entity.id for observation in observations])
        return observations

    def _gaps(self, answer: ReadResult, now_s: float) -> list[Reading]:
        gap = Gap(GapReason.FAILED, answer.message)
        return [_absent(reading, gap, now_s) for reading in self._known.values()]

    def _count(self, answer: ReadResult) -> None:
        if answer.trouble:
            self._meter.missed(self._reader.name, answer.trouble)
        else:
            self._meter.sampled(self._reader.name, answer.seconds)
        self._log_trouble(answer)

    def _log_trouble(self, answer: ReadResult) -> None:
        """One line per distinct trouble, one when it is over."""
        message = answer.trouble if answer.trouble == "late" else answer.message
        if message and message != self._message:
            log.warning("%s: %s; its values are gaps", self._reader.name, answer.message)
        if self._message and not answer.trouble:
            log.info("%s: answers again", self._reader.name)
        self._message = message


def _shared(observation: Observation, share: float) -> Observation:
    if share >= 1:
        return observation
    return replace(observation, values={**observation.values, SHARE: share})


def _absent(reading: Reading, gap: Gap, now_s: float) -> Reading:
    """The reading of a device that was not read: all that it used to have is a gap."""
    kept = {k: g for k, g in reading.gaps.items() if g.reason is GapReason.NOT_SUPPORTED}
    return Reading(
        device=reading.device,
        window=Window(min(reading.window.end_s, now_s), now_s),
        source=reading.source,
        values={},
        gaps=dict.fromkeys([*reading.values, *reading.gaps], gap) | kept,
        owner=reading.owner,
        quality=reading.quality,
    )
