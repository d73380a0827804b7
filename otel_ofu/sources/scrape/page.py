"""One endpoint's pages, one after another: each becomes the readings of its devices.

Enters: the text of a page and the instant of its read. Leaves: a `Reading` for each device, with a
time for each sample that has one, and the lines that could not be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.catalog.registry import Registry
from otel_ofu.catalog.vendors import Vendors
from otel_ofu.model import Gap, GapReason, Reading, Window
from otel_ofu.model.clock import Clock
from otel_ofu.sources.scrape.cells import OFU_FACTORS
from otel_ofu.sources.scrape.events import EventCounts
from otel_ofu.sources.scrape.freshness import (
    FORGET_AFTER_S,
    MOST_DEVICES,
    Age,
    DeviceValues,
    Freshness,
)
from otel_ofu.sources.scrape.identity import SOURCE_NAME
from otel_ofu.sources.scrape.parse import MetricsPage, parse
from otel_ofu.sources.scrape.read import DeviceRow, PageMapping
from otel_ofu.sources.scrape.stamps import (
    FRESH_S,
    STALE_AFTER_PERIODS,
    StampedWindows,
    StampLimits,
    apart,
)


@dataclass(frozen=True, slots=True)
class ScrapeContext:
    """What all targets share."""

    vendors: Vendors
    registry: Registry
    clock: Clock
    interval_s: float


@dataclass(frozen=True, slots=True)
class PageReadings:
    """One page: its samples and faults, its devices, and what they read.

    `crowded`: what was left out, for there are too many devices; empty when all are read.
    """

    page: MetricsPage
    rows: Sequence[DeviceRow]
    readings: Sequence[Reading]
    crowded: str = ""


class PageReader:
    """Belongs to one endpoint; `host` names the devices of pages that name no host."""

    def __init__(self, context: ScrapeContext, host: str) -> None:
        self._context = context
        self._host = host
        self._freshness = Freshness(context.interval_s)
        self._stamped = StampedWindows()
        self._events = EventCounts()
        self._last: dict[str, Reading] = {}

    def read(self, text: str, now_s: float) -> PageReadings:
        """The devices of a page; none is a page that no profile knows. Never raises."""
        vendors = self._context.vendors
        page = parse(text, vendors.candidates)
        oldest_s = max(FRESH_S, STALE_AFTER_PERIODS * self._period_s(0.0))
        limits = StampLimits(now_s, oldest_s)
        found = PageMapping(vendors, self._context.registry, self._host, limits).devices(page)
        rows = self._bounded(found)
        readings = list(self._readings(rows, now_s))
        self._stamped.forget(now_s - oldest_s)
        known = self._freshness.devices
        self._events.retain(known)
        self._last = {uuid: reading for uuid, reading in self._last.items() if uuid in known}
        crowded = _crowded(len(rows) < len(found), self._freshness.is_crowded)
        return PageReadings(page, rows, readings, crowded)

    @property
    def devices(self) -> Collection[str]:
        """The devices that are remembered, those that left the page a short while ago included."""
        return self._freshness.devices

    def _bounded(self, rows: list[DeviceRow]) -> list[DeviceRow]:
        """Those that were read before go first: families may stand in random order."""
        if len(rows) <= MOST_DEVICES:
            return rows
        known = self._freshness.devices
        return sorted(rows, key=lambda row: row.device.uuid not in known)[:MOST_DEVICES]

    def _period_s(self, assumed_s: float) -> float:
        """The time between two samples: as learned, else as the profile says."""
        return max(self._freshness.learned_s or assumed_s, self._context.interval_s)

    def _readings(self, rows: Sequence[DeviceRow], now_s: float) -> Iterator[Reading]:
        profiles = self._context.vendors.profiles
        assumed_s = max((profiles[row.profile_id].refresh_s for row in rows), default=0.0)
        seen = {row.device.uuid: _seen(row) for row in rows}
        ages = self._freshness.judge(now_s, seen, assumed_s)
        for row in rows:
            yield self._reading(row, ages[row.device.uuid], now_s, self._period_s(assumed_s))

    def _reading(self, row: DeviceRow, age: Age, now_s: float, period_s: float) -> Reading:
        windows, repeated = self._stamped.judge(row.device.uuid, row.stamps, now_s, period_s)
        gaps = {**row.gaps, **repeated}
        if age.gap is not None:
            gaps |= {key: age.gap for key in row.values if key not in row.stamps}
        times_s = {
            key: row.stamps.get(key, now_s)
            for key in OFU_FACTORS
            if key in row.values and key not in gaps
        }
        gaps |= apart(times_s, period_s)
        values = {key: value for key, value in row.values.items() if key not in gaps}
        own = {key: window for key, window in windows.items() if key in values}
        is_waiting = bool(row.values) and not values and (age.gap is None or _is_not_ready(age.gap))
        last = self._last.get(row.device.uuid)
        if is_waiting and last is not None and last.device == row.device:
            return last  # what it speaks about has not changed, nor have its owners been seen anew
        window = _main_window(values, own, age.window)
        counts = self._events.observe(row.device.uuid, row.last_codes)
        values |= counts if age.gap is None else {}
        reading = reading_of(row, window, values, gaps, own)
        self._last[row.device.uuid] = reading
        return reading


def _crowded(has_too_many: bool, has_forgotten: bool) -> str:  # noqa: FBT001 - read at one place
    if has_too_many:
        return f"more than {MOST_DEVICES} devices on the page; the rest is not read"
    if has_forgotten:
        return (
            f"more than {MOST_DEVICES} devices came and went within {FORGET_AFTER_S / 60:g}"
            " minutes; those that left the page first are forgotten"
        )
    return ""


def _is_not_ready(gap: Gap) -> bool:
    return gap.reason is GapReason.NOT_READY


def reading_of(
    row: DeviceRow,
    window: Window,
    values: Mapping[str, float],
    gaps: Mapping[str, Gap],
    windows: Mapping[str, Window],
) -> Reading:
    """The reading of a row; `windows` has the keys whose samples have times of their own."""
    return Reading(
        device=row.device,
        window=window,
        source=SOURCE_NAME,
        values=values,
        gaps=gaps,
        owners=row.owners,
        quality=row.quality,
        windows={key: own for key, own in windows.items() if own != window},
    )


def _seen(row: DeviceRow) -> DeviceValues:
    """What shows that a page is new: of stamped samples their stamps alone."""
    plain = {key: value for key, value in row.values.items() if key not in row.stamps}
    return DeviceValues({**plain, **row.last_codes}, row.newest_s)


def _main_window(values: Mapping[str, float], own: Mapping[str, Window], of_read: Window) -> Window:
    """The window of what matters most where every sample has its own, else that of the read."""
    if not own or len(own) < len(values):
        return of_read
    return own.get("tensor_active") or max(own.values(), key=lambda window: window.end_s)
