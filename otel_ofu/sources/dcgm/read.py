"""Raw samples as readings: enters targets with samples, leaves `Reading`s in catalogue units.

Each sample becomes a number or a gap, and those of a window one value with the time that it speaks
about. `Interpreter` holds what must survive a restart of the child: the times of samples already
used, the clock before this window, and the XIDs counted so far.
Source: DCGM's statuses and blanks (dcgm_structs.h, dcgm_fields.h), and how engines were seen to
behave: the cache serves the last sample for ever, and the first interval is blank.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Gap, GapReason, Reading, Window
from otel_ofu.model.reading import MULTIPLEXED
from otel_ofu.sources.dcgm import codes
from otel_ofu.sources.dcgm.codes import BlankKind, blank_reason
from otel_ofu.sources.dcgm.fields import (
    EVENT_REASONS,
    GR_ENGINE_ACTIVE,
    REASON_BITS,
    SM_CLOCK,
    TENSOR_ACTIVE,
    XID,
    Field,
    fields,
    is_profiling,
)
from otel_ofu.sources.dcgm.means import (
    SmClock,
    ValueSpan,
    masks_over_time,
    mean_clock,
    over_time,
    pairs,
)
from otel_ofu.sources.dcgm.wire import FUTURE_S, DcgmSample, DcgmTarget

NAME = "dcgm"

MEAN_CLOCK = ("sm_clock_mean",)
"""Have a gap where the clock has one; error and busy clock are there if samples tell them."""

_NUMBERS = frozenset({int, float})
_UNUSED = frozenset({GapReason.STALE})
_TICK_PERIODS = 2  # fields are sampled twice a tick
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

    now_us: float = dataclass_field(init=False)
    oldest_us: float = dataclass_field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "now_us", self.now_s * 1e6)
        object.__setattr__(self, "oldest_us", self.oldest_s * 1e6)

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
    value = sample.value
    if _is_usual(sample, last_us, moment) and isinstance(value, int | float):
        return value
    result = value_of(sample, moment)
    if isinstance(result, Gap):
        return result
    return result if (gap := _untimely(sample, last_us, moment)) is None else gap


def _is_usual(sample: DcgmSample, last_us: int | None, moment: SampleTimes) -> bool:
    """Whether a sample is fresh, follows the last one and is no blank: nearly all are."""
    value = sample.value
    return (
        sample.status == 0
        and last_us is not None
        and 0 < sample.ts_us - last_us <= moment.oldest_us
        and 0 <= moment.now_us - sample.ts_us <= moment.oldest_us
        and type(value) in _NUMBERS
        and -codes.FIRST_BLANK < value < codes.FIRST_BLANK  # type: ignore[operator]
    )


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
    an error.
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


@dataclass(frozen=True, slots=True)
class _Draft:
    """A reading under construction; a key is put once."""

    values: dict[str, float] = dataclass_field(default_factory=dict)
    gaps: dict[str, Gap] = dataclass_field(default_factory=dict)
    windows: dict[str, Window] = dataclass_field(default_factory=dict)

    def put(self, key: str, value: float, window: Window | None = None) -> None:
        self.values[key] = value
        if window is not None:
            self.windows[key] = window

    def absent(self, keys: Iterable[str], gap: Gap) -> None:
        self.gaps.update(dict.fromkeys(keys, gap))


class Interpreter:
    """Turns samples into readings; one for the life of a source."""

    def __init__(self, registry: Registry, started_s: float, *, with_profiling: bool) -> None:
        self._registry = registry
        self.fields = fields(registry, with_profiling=with_profiling)
        self._ranges = {f.id: _range(registry, f) for f in self.fields if f.keys}
        self._last_us: dict[tuple[str, int], int] = {}
        self._clocks: dict[str, list[ValueSpan]] = {}
        self._xids = XidCounts(started_s)

    def reading(
        self, target: DcgmTarget, samples: Sequence[DcgmSample], moment: SampleTimes, window: Window
    ) -> Reading:
        """Every key of every field is a value or a gap; `xid:…` only once there was one."""
        draft = _Draft()
        rows: dict[int, list[DcgmSample]] = {}
        for sample in samples:
            rows.setdefault(sample.field, []).append(sample)
        spans: dict[int, list[ValueSpan]] = {}
        for field in self.fields:
            gap = target.gaps.get(field.id)
            row = rows.get(field.id)
            if not row or gap is not None:
                draft.absent(self._keys(target.device.uuid, field), gap or _UNREAD)
            elif field.id == XID:
                self._put_xids(draft, target.device.uuid, row, moment)
            elif isinstance(judged := self._judged(target.device.uuid, field, row, moment), Gap):
                draft.absent(field.keys, judged)
            else:
                spans[field.id] = judged
        self._reduce(draft, target.device.uuid, spans, moment, window)
        return _reading(target, window, draft)

    def failed(self, target: DcgmTarget, gap: Gap, window: Window) -> Reading:
        """A reading of gaps alone, for a device that was there before."""
        draft = _Draft()
        for field in self.fields:
            keys = self._keys(target.device.uuid, field)
            draft.absent(keys, target.gaps.get(field.id, gap))
        return _reading(target, window, draft)

    def _put_xids(
        self, draft: _Draft, uuid: str, row: Sequence[DcgmSample], moment: SampleTimes
    ) -> None:
        for key, count in self._xids.outcome(uuid, row, moment).items():
            if isinstance(count, Gap):
                draft.absent((key,), count)
            else:
                draft.put(key, count)

    def _judged(
        self, uuid: str, field: Field, row: Sequence[DcgmSample], moment: SampleTimes
    ) -> list[ValueSpan] | Gap:
        """The good samples, each since the sample before it; the last gap if none is good."""
        key = (uuid, field.id)
        good: list[ValueSpan] = []
        gap = _UNREAD
        for sample in row:
            last_us = self._last_us.get(key)
            value = judge(sample, last_us, moment)
            if sample.status == 0 and not (isinstance(value, Gap) and value.reason in _UNUSED):
                self._last_us[key] = sample.ts_us
            if not isinstance(value, Gap):
                value = self._scaled(field, value)
            if isinstance(value, Gap):
                gap = value
            else:
                good.append(_span(field, sample.ts_us, last_us, value, moment))
        return good or gap

    def _scaled(self, field: Field, value: float) -> float | Gap:
        if field.id == EVENT_REASONS:
            return value
        value *= field.scale
        low, high = self._ranges[field.id]
        if low <= value <= high:
            return value
        return self._registry.check(field.keys[0], value) or value

    def _reduce(
        self,
        draft: _Draft,
        uuid: str,
        spans: Mapping[int, list[ValueSpan]],
        moment: SampleTimes,
        window: Window,
    ) -> None:
        clock = self._clock(uuid, spans.get(SM_CLOCK, ()), moment)
        for field in self.fields:
            if own := spans.get(field.id):
                _put(draft, field, own, clock, window)
        _put_clock(draft, spans, clock)

    def _clock(self, uuid: str, fresh: Sequence[ValueSpan], moment: SampleTimes) -> SmClock:
        """The clock of this read, and before it as far back as an interval can begin."""
        if not fresh:
            return SmClock(())
        newest_s = fresh[-1].end_s
        kept = [
            s
            for s in self._clocks.get(uuid, ())
            if newest_s - moment.oldest_s - _TICK_PERIODS * moment.period_s < s.end_s
            and s.end_s < fresh[0].end_s
        ]
        self._clocks[uuid] = [*kept, *fresh]
        return SmClock(self._clocks[uuid])

    def _keys(self, uuid: str, field: Field) -> Iterable[str]:
        if field.id == XID:
            return self._xids.keys(uuid)
        return (*field.keys, *MEAN_CLOCK) if field.id == SM_CLOCK else field.keys


def _range(registry: Registry, field: Field) -> tuple[float, float]:
    low, high = registry.metric(field.keys[0]).range
    return -math.inf if low is None else low, math.inf if high is None else high


def _span(
    field: Field, ts_us: int, last_us: int | None, value: float, moment: SampleTimes
) -> ValueSpan:
    """A sample and the time that it speaks about.

    A total speaks about the time since the sample before it, an interval of profiling too, of which
    the first has the usual length. A state stands for as long as one period at most.
    """
    end_s = ts_us / 1e6
    has_interval = field.kind != "total" and is_profiling(field.id)
    if last_us is None or last_us >= ts_us:
        return ValueSpan(end_s - moment.period_s if has_interval else end_s, end_s, value)
    start_s = last_us / 1e6
    if field.kind != "total" and not has_interval:
        start_s = max(start_s, end_s - moment.period_s)
    return ValueSpan(start_s, end_s, value)


def _put(
    draft: _Draft, field: Field, spans: Sequence[ValueSpan], clock: SmClock, window: Window
) -> None:
    own = Window(spans[0].start_s, spans[-1].end_s)
    if field.id == EVENT_REASONS:
        held = masks_over_time(spans)
        for key, bit in zip(field.keys, REASON_BITS, strict=True):
            draft.put(key, sum(part for mask, part in held.items() if mask & bit), own)
    elif field.kind == "share" and (paired := pairs(spans, clock)):
        draft.put(field.keys[0], paired.share(), paired.window)
    elif field.kind in {"share", "mean"}:
        draft.put(field.keys[0], over_time(spans), own)
    elif field.kind == "total":
        draft.put(field.keys[0], spans[-1].value, own)
    else:
        at_s = own.end_s
        is_older = at_s <= window.start_s
        draft.put(field.keys[0], spans[-1].value, Window(at_s, at_s) if is_older else None)


def _put_clock(draft: _Draft, spans: Mapping[int, list[ValueSpan]], clock: SmClock) -> None:
    """The mean clock of the time of the tensor activity, or else of the clock's own samples."""
    fresh = spans.get(SM_CLOCK)
    if not fresh:
        draft.absent(MEAN_CLOCK, draft.gaps.get("sm_clock", _UNREAD))
        return
    tensor, engine = spans.get(TENSOR_ACTIVE, ()), spans.get(GR_ENGINE_ACTIVE, ())
    found = mean_clock(tensor, engine, fresh, clock)
    draft.put("sm_clock_mean", found.mean_hz, found.window)
    for key, value in (
        ("sm_clock_mean_error", found.error_hz),
        ("sm_clock_busy", found.busy_hz),
    ):
        if value is not None:
            draft.put(key, value, found.window)


def _reading(target: DcgmTarget, window: Window, draft: _Draft) -> Reading:
    takes_turns = target.backend == MULTIPLEXED and "tensor_active" in draft.values
    return Reading(
        device=target.device,
        window=window,
        source=NAME,
        values=draft.values,
        gaps=draft.gaps,
        quality=MULTIPLEXED if takes_turns else "",
        windows=draft.windows,
    )
