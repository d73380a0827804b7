"""Whether a sample says anything: enters one raw sample, leaves its number or a gap.

Source: DCGM's statuses and blanks (dcgm_structs.h, dcgm_fields.h), and how engines were seen to
behave: the cache serves the last sample for ever, and the first interval is blank.
"""

from __future__ import annotations

from dataclasses import dataclass

from otel_ofu.model import Gap, GapReason
from otel_ofu.sources.dcgm import codes
from otel_ofu.sources.dcgm.blanks import Blank, blank_reason
from otel_ofu.sources.dcgm.profiling import is_profiling
from otel_ofu.sources.dcgm.recent import FUTURE_S
from otel_ofu.sources.dcgm.wire import Sample

_STALE_PERIODS = 3
_FIRST_PERIODS = 3
_SLACK_S = 1.0


@dataclass(frozen=True, slots=True)
class Moment:
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


def judge(sample: Sample, last_us: int | None, moment: Moment) -> float | Gap:
    """The sample's number in DCGM's unit, or why it has none.

    `last_us` is the time of the newest sample of this field that was judged before. A sample is
    never used twice: it must be newer, unless the clock was set back since.
    """
    return value_of(sample, moment) if (gap := _untimely(sample, last_us, moment)) is None else gap


def value_of(sample: Sample, moment: Moment) -> float | Gap:
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


def _blank_gap(blank: Blank, field_id: int, moment: Moment) -> Gap:
    match blank:
        case Blank.NOT_SUPPORTED:
            return Gap(GapReason.NOT_SUPPORTED, "the driver does not support it on this device")
        case Blank.NOT_PERMITTED:
            return Gap(GapReason.NOT_PERMITTED, "the driver does not permit it to the engine")
        case Blank.NOT_FOUND:
            return Gap(GapReason.FAILED, "the engine did not find it")
        case Blank.PLAIN if is_profiling(field_id) and moment.paused:
            trouble = codes.trouble(codes.PAUSED)
            return Gap(trouble.reason, trouble.detail)
        case Blank.PLAIN if is_profiling(field_id) and moment.is_first:
            return Gap(GapReason.NOT_READY, "the first interval is not over")
        case Blank.PLAIN:
            return Gap(GapReason.FAILED, "blank, and DCGM gives no reason")


def _untimely(sample: Sample, last_us: int | None, moment: Moment) -> Gap | None:
    if sample.status or blank_reason(sample.value) is not None:
        return None  # these tell their own reason
    ahead_s = sample.ts_us / 1e6 - moment.now_s
    if ahead_s > FUTURE_S:
        return Gap(GapReason.STALE, f"stamped {ahead_s:.0f} s ahead of this machine's clock")
    if -ahead_s > moment.oldest_s:
        return Gap(GapReason.STALE, f"the last sample is {-ahead_s:.0f} s old")
    if last_us is None or last_us / 1e6 - moment.now_s > FUTURE_S:
        return None  # the first, or the clock was set back: times before no longer compare
    return _not_next(sample, last_us, moment)


def _not_next(sample: Sample, last_us: int, moment: Moment) -> Gap | None:
    since_s = (sample.ts_us - last_us) / 1e6
    if since_s <= 0:
        age_s = moment.now_s - sample.ts_us / 1e6
        return Gap(GapReason.STALE, f"no new sample for {age_s:.0f} s")
    if is_profiling(sample.field) and since_s > moment.oldest_s:
        return Gap(GapReason.NOT_READY, f"the first interval after {since_s:.0f} s without any")
    return None
