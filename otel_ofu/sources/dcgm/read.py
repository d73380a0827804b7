"""Raw samples as readings: enters targets with samples, leaves `Reading`s in catalogue units.

Each sample becomes a number or a gap. `Interpreter` holds what must survive a restart of the child:
the times of samples already used, and the XIDs counted so far.
Source: DCGM's statuses and blanks (dcgm_structs.h, dcgm_fields.h), and how engines were seen to
behave: the cache serves the last sample for ever, and the first interval is blank.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Gap, GapReason, Reading, Window
from otel_ofu.sources.dcgm import codes
from otel_ofu.sources.dcgm.codes import BlankKind, blank_reason
from otel_ofu.sources.dcgm.fields import (
    EVENT_REASONS,
    REASON_BITS,
    XID,
    Field,
    fields,
    is_profiling,
)
from otel_ofu.sources.dcgm.wire import FUTURE_S, DcgmSample, DcgmTarget

NAME = "dcgm"

_Outcome = dict[str, float | Gap]
_UNREAD = Gap(GapReason.FAILED, "the engine did not answer for this field")

_STALE_PERIODS = 3
_FIRST_PERIODS = 3
_SLACK_S = 1.0
"""Starting values: how long a sample counts as current, and how long the first profiling interval
takes at most."""


@dataclass(frozen=True, slots=True)
class SampleTimes:
    """When samples are judged: now, since when they are watched and how often they are taken."""

    now_s: float
    watched_since_s: float
    period_s: float
    paused: bool = False

    @property
    def oldest_s(self) -> float:
        """The age in seconds at which a sample no longer counts as current."""
        return _STALE_PERIODS * self.period_s + _SLACK_S

    @property
    def is_first(self) -> bool:
        """Whether the first profiling interval can still be under way."""
        since_s = self.now_s - self.watched_since_s
        return since_s < _FIRST_PERIODS * self.period_s + _SLACK_S


def judge(sample: DcgmSample, last_us: int | None, moment: SampleTimes) -> float | Gap:
    """The sample's number in DCGM's unit, or why it has none.

    `last_us` is the time of the newest sample of this field that was judged before. A sample is
    never used twice: it must be newer, unless the clock was set back since.
    """
    return value_of(sample, moment) if (gap := _untimely(sample, last_us, moment)) is None else gap


def value_of(sample: DcgmSample, moment: SampleTimes) -> float | Gap:
    """The number of a sample, whatever its time."""
    if sample.status:
        trouble = codes.trouble(sample.status)
        return Gap(trouble.reason, trouble.detail)
    blank = blank_reason(sample.value)
    if blank is not None:
        return _blank_gap(blank, sample.field, moment)
    if isinstance(sample.value, str) or sample.value is None:
        return Gap(GapReason.FAILED, f"text in place of a number: {sample.value!r}"[:80])
    return sample.value


def _blank_gap(blank: BlankKind, field_id: int, moment: SampleTimes) -> Gap:
    match blank:
        case BlankKind.NOT_SUPPORTED:
            return Gap(GapReason.NOT_SUPPORTED, "the driver does not support it on this device")
        case BlankKind.NOT_PERMITTED:
            return Gap(GapReason.NOT_PERMITTED, "the driver does not permit it to the engine")
        case BlankKind.NOT_FOUND:
            return Gap(GapReason.FAILED, "the engine did not find it")
        case BlankKind.PLAIN if is_profiling(field_id) and moment.paused:
            trouble = codes.trouble(codes.PAUSED)
            return Gap(trouble.reason, trouble.detail)
        case BlankKind.PLAIN if is_profiling(field_id) and moment.is_first:
            return Gap(GapReason.NOT_READY, "the first interval is not over")
        case BlankKind.PLAIN:
            return Gap(GapReason.FAILED, "blank, and DCGM gives no reason")


def _untimely(sample: DcgmSample, last_us: int | None, moment: SampleTimes) -> Gap | None:
    if sample.status or blank_reason(sample.value) is not None:
        return None  # these have a reason of their own
    ahead_s = sample.ts_us / 1e6 - moment.now_s
    if ahead_s > FUTURE_S:
        return Gap(GapReason.STALE, f"stamped {ahead_s:.0f} s ahead of this machine's clock")
    if -ahead_s > moment.oldest_s:
        return Gap(GapReason.STALE, f"the last sample is {-ahead_s:.0f} s old")
    if last_us is None or last_us / 1e6 - moment.now_s > FUTURE_S:
        return None  # the first, or the clock was set back: times before no longer compare
    return _not_next(sample, last_us, moment)


def _not_next(sample: DcgmSample, last_us: int, moment: SampleTimes) -> Gap | None:
    since_s = (sample.ts_us - last_us) / 1e6
    if since_s <= 0:
        age_s = moment.now_s - sample.ts_us / 1e6
        return Gap(GapReason.STALE, f"no new sample for {age_s:.0f} s")
    if is_profiling(sample.field) and since_s > moment.oldest_s:
        return Gap(GapReason.NOT_READY, f"the first interval after {since_s:.0f} s without any")
    return None


class XidCounts:
    """Driver errors by device since `started_s` (Unix seconds); errors from before do not count.

    The field holds the last code for ever and its time is that of the error, so a change of time is
    an error. Two errors between two reads of the field (at most a second apart) count as one.
    """

    def __init__(self, started_s: float) -> None:
        self._started_us = started_s * 1e6
        self._last_us: dict[str, int] = {}
        self._counts: dict[str, dict[int, int]] = {}

    def keys(self, uuid: str) -> list[str]:
        """The keys of codes that were seen on a device."""
        return [f"xid:{code}" for code in self._counts.get(uuid, ())]

    def outcome(
        self, uuid: str, samples: Sequence[DcgmSample], moment: SampleTimes
    ) -> dict[str, float | Gap]:
        """All counts of a device, or their gap; empty while there was no error."""
        gap = None
        for sample in samples:
            value = value_of(sample, moment)
            gap = value if isinstance(value, Gap) and sample.status != codes.NO_DATA else None
            if not isinstance(value, Gap):
                self._count(uuid, int(value), sample.ts_us)
        counts = self._counts.get(uuid, {})
        return {f"xid:{code}": gap or float(n) for code, n in counts.items()}

    def _count(self, uuid: str, code: int, at_us: int) -> None:
        before = self._last_us.get(uuid)
        self._last_us[uuid] = at_us
        is_new = at_us >= self._started_us if before is None else at_us != before
        if is_new and code > 0:
            counts = self._counts.setdefault(uuid, {})
            counts[code] = counts.get(code, 0) + 1


class Interpreter:
    """Turns samples into readings; one for the life of a source."""

    def __init__(self, registry: Registry, started_s: float, *, with_profiling: bool) -> None:
        self._registry = registry
        self.fields = fields(registry, with_profiling=with_profiling)
        self._by_id = {f.id: f for f in self.fields}
        self._last_us: dict[tuple[str, int], int] = {}
        self._xids = XidCounts(started_s)

    def reading(
        self, target: DcgmTarget, samples: Sequence[DcgmSample], moment: SampleTimes, window: Window
    ) -> Reading:
        """Every key of every field is a value or a gap; `xid:…` only once there was one."""
        outcome: _Outcome = {}
        rows: dict[int, list[DcgmSample]] = {}
        for sample in samples:
            rows.setdefault(sample.field, []).append(sample)
        for field in self.fields:
            row = rows.get(field.id)
            gap = target.gaps.get(field.id)
            if row and gap is None:
                outcome |= self._outcome(target.device.uuid, field, row, moment)
            else:
                outcome |= self._all(target.device.uuid, field, gap or _UNREAD)
        return _reading(target, window, outcome)

    def failed(self, target: DcgmTarget, gap: Gap, window: Window) -> Reading:
        """A reading of gaps alone, for a device that was there before."""
        outcome: _Outcome = {}
        for field in self.fields:
            outcome |= self._all(target.device.uuid, field, target.gaps.get(field.id, gap))
        return _reading(target, window, outcome)

    def _outcome(
        self, uuid: str, field: Field, row: Sequence[DcgmSample], moment: SampleTimes
    ) -> _Outcome:
        if field.id == XID:
            return self._xids.outcome(uuid, row, moment)
        result = self._reduced(uuid, field, row, moment)
        if isinstance(result, Gap):
            return dict.fromkeys(field.keys, result)
        if field.id == EVENT_REASONS:
            return _reasons(field, int(result))
        return {field.keys[0]: result}

    def _reduced(
        self, uuid: str, field: Field, row: Sequence[DcgmSample], moment: SampleTimes
    ) -> float | Gap:
        """The mean of the good samples, or the newest of them; the last gap if none is good."""
        judged = [self._judged(uuid, field, sample, moment) for sample in row]
        good = [v for v in judged if not isinstance(v, Gap)]
        if not good:
            return judged[-1]
        return sum(good) / len(good) if field.is_mean else good[-1]

    def _judged(
        self, uuid: str, field: Field, sample: DcgmSample, moment: SampleTimes
    ) -> float | Gap:
        key = (uuid, field.id)
        value = judge(sample, self._last_us.get(key), moment)
        gap = value if isinstance(value, Gap) else None
        if sample.status == 0 and (gap is None or gap.reason is not GapReason.STALE):
            self._last_us[key] = sample.ts_us
        if isinstance(value, Gap) or field.id == EVENT_REASONS:
            return value
        value *= field.scale
        return self._registry.check(field.keys[0], value) or value

    def _all(self, uuid: str, field: Field, gap: Gap) -> dict[str, float | Gap]:
        keys: Iterable[str] = self._xids.keys(uuid) if field.id == XID else field.keys
        return dict.fromkeys(keys, gap)


def _reasons(field: Field, mask: int) -> _Outcome:
    return {key: float(bool(mask & bit)) for key, bit in zip(field.keys, REASON_BITS, strict=True)}


def _reading(target: DcgmTarget, window: Window, outcome: _Outcome) -> Reading:
    return Reading(
        device=target.device,
        window=window,
        source=NAME,
        values={k: float(v) for k, v in outcome.items() if not isinstance(v, Gap)},
        gaps={k: v for k, v in outcome.items() if isinstance(v, Gap)},
    )
