"""One round of reading: source -> derive -> whoever listens.

Enters: the scheduled instant. Leaves: observations of every known device, to `emit`. When the
source is late or fails, the devices that it had become gaps; the round goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from otel_ofu.model import Device, Gap, GapReason, Observation, Reading, Window
from otel_ofu.sampler.reader import Answer, Reader

log = logging.getLogger(__name__)


class Deriving(Protocol):
    """One reading in, one observation out (otel_ofu.derive.Deriver)."""

    def derive(self, reading: Reading, parent: Reading | None = None) -> Observation: ...

    def retain(self, entity_ids: Collection[str]) -> None: ...


class Meter(Protocol):
    """Where the sampler counts its own work."""

    def sampled(self, source: str, seconds: float) -> None: ...

    def missed(self, source: str, reason: str) -> None: ...


Emit = Callable[[Sequence[Observation]], None]


class Sampler:
    """Owns one reader. `tick` belongs to one thread and never raises because of the source.

    `budget_s` is the longest that a round waits for the source.
    """

    def __init__(
        self,
        reader: Reader,
        deriver: Deriving,
        emit: Emit,
        *,
        budget_s: float,
        meter: Meter,
    ) -> None:
        self._reader = reader
        self._deriver = deriver
        self._emit = emit
        self._budget_s = budget_s
        self._meter = meter
        self._known: dict[str, Reading] = {}
        self._words = ""

    def tick(self, now_s: float) -> None:
        """Reads once. `now_s` is the scheduled instant in Unix seconds."""
        answer = self._reader.read(now_s, self._budget_s)
        self._count(answer)
        readings = self._gaps(answer, now_s) if answer.trouble else answer.readings
        self._known = {reading.device.uuid: reading for reading in readings}
        self._emit(self._derived(readings))

    def devices(self) -> list[Device]:
        """The devices of the last round."""
        return [reading.device for reading in self._known.values()]

    def close(self, deadline_s: float) -> None:
        """Ends the reader; waits for a call that hangs no longer than `deadline_s`."""
        self._reader.close(deadline_s)

    def _derived(self, readings: Sequence[Reading]) -> list[Observation]:
        """A MIG instance is derived with the reading of its GPU, which has the clock."""
        observations = [
            self._deriver.derive(reading, self._known.get(reading.device.parent))
            for reading in readings
        ]
        self._deriver.retain([observation.entity.id for observation in observations])
        return observations

    def _gaps(self, answer: Answer, now_s: float) -> list[Reading]:
        gap = Gap(GapReason.FAILED, answer.words)
        return [_absent(reading, gap, now_s) for reading in self._known.values()]

    def _count(self, answer: Answer) -> None:
        if answer.trouble:
            self._meter.missed(self._reader.name, answer.trouble)
        else:
            self._meter.sampled(self._reader.name, answer.seconds)
        self._tell(answer)

    def _tell(self, answer: Answer) -> None:
        """One line per distinct trouble, one when it is over."""
        told = answer.trouble if answer.trouble == "late" else answer.words
        if told and told != self._words:
            log.warning("%s: %s; its values are gaps", self._reader.name, answer.words)
        if self._words and not answer.trouble:
            log.info("%s: answers again", self._reader.name)
        self._words = told


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
