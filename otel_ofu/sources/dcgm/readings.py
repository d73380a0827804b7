"""Raw samples as readings: enters targets with samples, leaves `Reading`s in catalogue units.

Holds what must survive a restart of the child: the times of samples already used, and the XIDs
counted so far.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Device, Gap, GapReason, Reading, Window
from otel_ofu.sources.dcgm.blocks import XID
from otel_ofu.sources.dcgm.fields import EVENT_REASONS, REASON_BITS, Field, fields
from otel_ofu.sources.dcgm.judge import Moment, judge
from otel_ofu.sources.dcgm.wire import Sample, Target
from otel_ofu.sources.dcgm.xid import XidCounts

NAME = "dcgm"

_Outcome = dict[str, float | Gap]
_UNREAD = Gap(GapReason.FAILED, "the engine did not answer for this field")


class Interpreter:
    """Turns samples into readings; one for the life of a source."""

    def __init__(self, registry: Registry, started_s: float, *, with_profiling: bool) -> None:
        self._registry = registry
        self.fields = fields(registry, with_profiling=with_profiling)
        self._by_id = {f.id: f for f in self.fields}
        self._last_us: dict[tuple[str, int], int] = {}
        self._xids = XidCounts(started_s)

    def reading(
        self, target: Target, samples: Sequence[Sample], moment: Moment, window: Window
    ) -> Reading:
        """Every key of every field is a value or a gap; `xid:…` only once there was one."""
        outcome: _Outcome = {}
        standing = {g.field: Gap(g.reason, g.detail) for g in target.gaps}
        rows: dict[int, list[Sample]] = {}
        for sample in samples:
            rows.setdefault(sample.field, []).append(sample)
        for field in self.fields:
            row = rows.get(field.id)
            gap = standing.get(field.id)
            if row and gap is None:
                outcome |= self._outcome(target.uuid, field, row, moment)
            else:
                outcome |= self._all(target.uuid, field, gap or _UNREAD)
        return _reading(target, window, outcome)

    def failed(self, target: Target, gap: Gap, window: Window) -> Reading:
        """A reading of gaps alone, for a device that was there before."""
        outcome: _Outcome = {}
        standing = {g.field: Gap(g.reason, g.detail) for g in target.gaps}
        for field in self.fields:
            outcome |= self._all(target.uuid, field, standing.get(field.id, gap))
        return _reading(target, window, outcome)

    def _outcome(self, uuid: str, field: Field, row: Sequence[Sample], moment: Moment) -> _Outcome:
        if field.id == XID:
            return self._xids.outcome(uuid, row, moment)
        result = self._reduced(uuid, field, row, moment)
        if isinstance(result, Gap):
            return dict.fromkeys(field.keys, result)
        if field.id == EVENT_REASONS:
            return _reasons(field, int(result))
        return {field.keys[0]: result}

    def _reduced(
        self, uuid: str, field: Field, row: Sequence[Sample], moment: Moment
    ) -> float | Gap:
        """The mean of the good samples, or the newest of them; the last gap if none is good."""
        judged = [self._judged(uuid, field, sample, moment) for sample in row]
        good = [v for v in judged if not isinstance(v, Gap)]
        if not good:
            return judged[-1]
        return sum(good) / len(good) if field.is_mean else good[-1]

    def _judged(self, uuid: str, field: Field, sample: Sample, moment: Moment) -> float | Gap:
        place = (uuid, field.id)
        value = judge(sample, self._last_us.get(place), moment)
        gap = value if isinstance(value, Gap) else None
        if sample.status == 0 and (gap is None or gap.reason is not GapReason.STALE):
            self._last_us[place] = sample.ts_us
        if isinstance(value, Gap) or field.id == EVENT_REASONS:
            return value
        value *= field.scale
        return self._registry.check(field.keys[0], value) or value

    def _all(self, uuid: str, field: Field, gap: Gap) -> dict[str, float | Gap]:
        keys: Iterable[str] = self._xids.keys(uuid) if field.id == XID else field.keys
        return dict.fromkeys(keys, gap)


def device(target: Target) -> Device:
    """The noun of the whole program for what the child calls a target."""
    return Device(
        uuid=target.uuid,
        index=target.index,
        model=target.model,
        pci_address=target.pci_address,
        parent=target.parent,
        sm_share=target.sm_share,
        mig_profile=target.mig_profile,
        mig_instance_id=target.mig_instance_id,
        serial=target.serial,
        driver_version=target.driver_version,
        architecture=target.architecture,
    )


def _reasons(field: Field, mask: int) -> _Outcome:
    return {key: float(bool(mask & bit)) for key, bit in zip(field.keys, REASON_BITS, strict=True)}


def _reading(target: Target, window: Window, outcome: _Outcome) -> Reading:
    return Reading(
        device=device(target),
        window=window,
        source=NAME,
        values={k: float(v) for k, v in outcome.items() if not isinstance(v, Gap)},
        gaps={k: v for k, v in outcome.items() if isinstance(v, Gap)},
    )
