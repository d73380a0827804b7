"""One round of reading: source -> derive -> whoever listens.

Enters: the scheduled instant. Leaves: observations of every known device, to `emit`. When the
source is late or fails, the devices that it had become gaps; the round goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from otel_ofu.app.shared_gpus import DeviceOwner, ReadingDeriver, derive_owned, named_owners
from otel_ofu.app.source_reader import ReadResult, SourceReader
from otel_ofu.app.troubles import TroubleLog
from otel_ofu.model import (
    Device,
    Gap,
    GapReason,
    Observation,
    Owner,
    Reading,
    Trouble,
    Window,
)


class SamplerDeriver(ReadingDeriver, Protocol):
    """A deriver that holds something of each entity."""

    def retain(self, entity_ids: Collection[str]) -> None: ...


class SamplerMeter(Protocol):
    """Where the sampler counts its own work."""

    def sampled(self, source: str, seconds: float) -> None: ...

    def missed(self, source: str, reason: str) -> None: ...

    def cost(self, source: str, costs: Mapping[str, float]) -> None: ...

    def troubled(self, source: str, target: str, reason: str) -> None: ...

    def answered(self, source: str, targets: Mapping[str, bool]) -> None: ...


Emit = Callable[[Sequence[Observation]], None]
Owners = Callable[[float], Mapping[str, Sequence[DeviceOwner]]]


@dataclass(frozen=True, slots=True)
class EventSource:
    """What does not wait for a round: XIDs are lost with a node that reboots before the next.

    `read` gives what happened since its last call; `deriver` makes an observation of it, which has
    nothing else in it, and `emit` takes those.
    """

    read: Callable[[], Sequence[Reading]]
    deriver: ReadingDeriver
    emit: Emit


class Sampler:
    """Owns the reader. `tick` belongs to one thread and never raises because of the source.

    `poll_events` may be called by another thread, also while a round waits for the source.
    `budget_s` is the longest that a round waits for the source.
    """

    def __init__(
        self,
        reader: SourceReader,
        deriver: SamplerDeriver,
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
        self._of_source: dict[str, list[Reading]] = {}
        self._troubles = TroubleLog(meter)
        self.owners: Owners | None = None
        """Who owns the devices at an instant; set before the first round, if at all."""
        self.events: EventSource | None = None
        """Set before the first round, if at all."""
        self._deriving = threading.Lock()
        self._happened: dict[str, Reading] = {}

    def tick(self, now_s: float) -> None:
        """Reads once. `now_s` is the scheduled instant in Unix seconds."""
        with self._deriving:
            self._happened.clear()  # a read that begins now has it
        results = self._reader.read(now_s, self._budget_s)
        with self._deriving:
            self._take(results, now_s)

    def poll_events(self, now_s: float) -> None:
        """Emits what happened since the last call."""
        if self.events is None or not (readings := self.events.read()):
            return
        with self._deriving:
            self._happened |= {reading.device.uuid: reading for reading in readings}
            owners = self.owners(now_s) if self.owners else {}
            observations: list[Observation] = []
            for reading in readings:
                rows = owners.get(reading.device.uuid, ())
                observations += derive_owned(self.events.deriver, reading, None, rows)
            self.events.emit(observations)

    def _take(self, results: Sequence[ReadResult], now_s: float) -> None:
        self._of_source = self._readings(results, now_s)
        readings = [
            self._with_events(reading) for each in self._of_source.values() for reading in each
        ]
        self._known = {reading.device.uuid: reading for reading in readings}
        observations = self._derived(readings, now_s)
        self._report(results, observations)
        self._emit(observations)

    def _with_events(self, reading: Reading) -> Reading:
        """What was emitted while the round was read is not taken back by what was read before."""
        happened = self._happened.get(reading.device.uuid)
        if happened is None:
            return reading
        return replace(reading, values={**reading.values, **happened.values})

    def devices(self) -> list[Device]:
        """The devices of the last round."""
        return [reading.device for reading in self._known.values()]

    def close(self, deadline_s: float) -> None:
        """Ends the reader; waits for a call that hangs no longer than `deadline_s`."""
        self._reader.close(deadline_s)

    def source_owners(self) -> dict[str, Sequence[Owner]]:
        """What the source itself reports of the owners, by device, as of the last round."""
        return {
            uuid: named_owners(reading) for uuid, reading in self._known.items() if reading.owners
        }

    def _derived(self, readings: Sequence[Reading], now_s: float) -> list[Observation]:
        """A MIG instance is derived with the reading of its GPU, which has the clock."""
        owners = self.owners(now_s) if self.owners else {}
        observations: list[Observation] = []
        for reading in readings:
            parent = self._known.get(reading.device.parent)
            rows = owners.get(reading.device.uuid, ())
            observations += derive_owned(self._deriver, reading, parent, rows)
        self._deriver.retain([observation.entity.id for observation in observations])
        return observations

    def _readings(self, results: Sequence[ReadResult], now_s: float) -> dict[str, list[Reading]]:
        """By source; one that failed has gaps for what it had, unless another took that over."""
        read = {reading.device.uuid for result in results for reading in result.readings}
        found: dict[str, list[Reading]] = {}
        for result in results:
            found[result.source] = list(result.readings)
            if result.failure:
                gap = Gap(GapReason.FAILED, result.message)
                left = [
                    r for r in self._of_source.get(result.source, ()) if r.device.uuid not in read
                ]
                found[result.source] = [_absent(reading, gap, now_s) for reading in left]
        return found

    def _report(self, results: Sequence[ReadResult], observations: Sequence[Observation]) -> None:
        self._troubles.retain({result.source for result in results})
        for result in results:
            name = result.source
            if result.failure:
                self._meter.missed(name, result.failure)
            else:
                self._meter.sampled(name, result.seconds)
                self._meter.cost(name, result.costs)
            answers = _answers(result)
            own = {reading.device.uuid for reading in result.readings}
            seen = [o for o in observations if o.entity.attributes.get("hw.id") in own]
            troubles = [*result.troubles, *(no_ofu(seen) if answers else _whole(result))]
            self._troubles.update(name, troubles, result.targets, up=answers)


def _answers(answer: ReadResult) -> bool:
    """Whether it gave anything: an engine that is frozen answers with nothing but gaps."""
    if answer.failure:
        return False
    return not answer.readings or not all(map(_is_silent, answer.readings))


def _is_silent(reading: Reading) -> bool:
    """Not so where a page was only not refreshed since the last read."""
    failed = any(gap.reason is GapReason.FAILED for gap in reading.gaps.values())
    return failed and not reading.values


def _whole(answer: ReadResult) -> Sequence[Trouble]:
    """The source as a whole gives nothing; nothing more where it reports the parts that failed."""
    if answer.troubles and answer.failure != "late":
        return ()
    message = answer.message
    if not answer.failure:
        gaps = (gap.detail for reading in answer.readings for gap in reading.gaps.values())
        message = next((detail for detail in gaps if detail), "no value at all")
    reason = "late" if answer.failure == "late" else "failed"
    return (Trouble(answer.source, reason, message),)


_OFU_INPUTS = ("tensor_active", "engine_busy", "sm_clock_mean", "sm_clock", "reference_clock")


def no_ofu(observations: Sequence[Observation]) -> list[Trouble]:
    """The GPUs that have no OFU, each with the counter that is missing and why.

    A GPU in MIG mode is its instances.
    """
    parents = {observation.entity.attributes.get("hw.parent") for observation in observations}
    return [
        trouble
        for observation in observations
        if observation.entity.attributes.get("hw.id") not in parents
        if (trouble := _no_ofu(observation)) is not None
    ]


def _no_ofu(observation: Observation) -> Trouble | None:
    gap = observation.gaps.get("ofu")
    if gap is None or gap.reason is GapReason.NOT_READY:
        return None
    key = next((key for key in _OFU_INPUTS if observation.gaps.get(key) == gap), "ofu")
    reason = gap.reason.replace("_", " ")
    detail = f"no OFU: {key}: {reason}: {gap.detail}" if gap.detail else f"no OFU: {key}: {reason}"
    target = str(observation.entity.attributes.get("hw.id", observation.entity.id))
    return Trouble(target, gap.reason.value, detail)


def _absent(reading: Reading, gap: Gap, now_s: float) -> Reading:
    """The reading of a device that was not read: all that it used to have is a gap."""
    kept = {k: g for k, g in reading.gaps.items() if g.reason is GapReason.NOT_SUPPORTED}
    return Reading(
        device=reading.device,
        window=Window(min(reading.window.end_s, now_s), now_s),
        source=reading.source,
        values={},
        gaps=dict.fromkeys([*reading.values, *reading.gaps], gap) | kept,
        owners=reading.owners,
        quality=reading.quality,
    )
