"""One endpoint over time: its page becomes readings, its silence becomes gaps.

Enters: instants. Leaves: a `Reading` for each of its devices, and what is wrong with the endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from otel_ofu.catalog.registry import Registry
from otel_ofu.catalog.vendors import Vendors
from otel_ofu.model import Gap, GapReason, Reading, Trouble, Window
from otel_ofu.model.clock import Clock
from otel_ofu.sources.scrape.client import Fetcher, FetchError
from otel_ofu.sources.scrape.freshness import FORGET_AFTER_S, Age, DeviceValues, Freshness
from otel_ofu.sources.scrape.identity import SOURCE_NAME
from otel_ofu.sources.scrape.parse import MetricsPage, parse
from otel_ofu.sources.scrape.read import DeviceRow, PageMapping
from otel_ofu.sources.scrape.settings import PageEndpoint


@dataclass(frozen=True, slots=True)
class ScrapeContext:
    """What all targets share."""

    vendors: Vendors
    registry: Registry
    clock: Clock
    interval_s: float


@dataclass(frozen=True, slots=True)
class ScrapeResult:
    """One read of one endpoint. `answered` is whether it gave a page that could be read.

    `troubles` are what is wrong with it, each in a text that does not change while it lasts.
    """

    readings: Sequence[Reading]
    answered: bool
    troubles: Sequence[Trouble] = ()


@dataclass(slots=True)
class _LastSeen:
    """A device as last seen on a page, so that its absence can be reported."""

    row: DeviceRow
    seen_s: float


class ScrapeTarget:
    """Reads one endpoint. `rows` are the devices of its last page."""

    def __init__(self, endpoint: PageEndpoint, tools: ScrapeContext) -> None:
        self.endpoint = endpoint
        self.rows: Sequence[DeviceRow] = ()
        self._tools = tools
        self._fetcher = Fetcher(endpoint)
        self._freshness = Freshness(tools.interval_s)
        self._known: dict[str, _LastSeen] = {}
        self._malformed = ""

    def read(self, now_s: float) -> ScrapeResult:
        """Never raises for what the endpoint does."""
        try:
            page = parse(self._fetcher.fetch(), self._tools.vendors.candidates)
            self.rows = self._devices(page)
        except FetchError as error:
            self.rows = ()
            gap = Gap(error.reason, str(error))
            absent = [self._absent(known.row, now_s, gap) for known in self._known.values()]
            return ScrapeResult(absent, answered=False, troubles=(error.trouble,))
        readings = [*self._readings(now_s), *self._vanished(now_s)]
        return ScrapeResult(readings, answered=True, troubles=self._malformed_lines(page))

    def close(self) -> None:
        self._fetcher.close()

    def _devices(self, page: MetricsPage) -> Sequence[DeviceRow]:
        tools = self._tools
        mapping = PageMapping(tools.vendors, tools.registry, self.endpoint.host)
        rows = mapping.devices(page)
        if not rows:
            raise self._unknown(page)
        return rows

    def _unknown(self, page: MetricsPage) -> FetchError:
        names = {sample.name: None for sample in page.samples}
        first = ", ".join([*names, *page.others][:5]) or "none"
        known = ", ".join(self._tools.vendors.profiles)
        bad = f"; {page.first_malformed}" if page.malformed else ""
        return FetchError(
            self.endpoint.name,
            "no GPU on this page that a profile knows"
            f" (its first metrics: {first}; profiles: {known}){bad}",
        )

    def _readings(self, now_s: float) -> Iterable[Reading]:
        profiles = self._tools.vendors.profiles
        assumed_s = max(profiles[row.profile_id].refresh_s for row in self.rows)
        seen = {row.device.uuid: DeviceValues(row.values, row.timestamp_s) for row in self.rows}
        ages = self._freshness.judge(now_s, seen, assumed_s)
        for row in self.rows:
            self._known[row.device.uuid] = _LastSeen(row, now_s)
            yield _reading(row, ages[row.device.uuid])

    def _vanished(self, now_s: float) -> Iterable[Reading]:
        here = {row.device.uuid for row in self.rows}
        gap = Gap(GapReason.FAILED, "the device is no longer on the exporter's page")
        for uuid, known in list(self._known.items()):
            if uuid in here:
                continue
            if now_s - known.seen_s > FORGET_AFTER_S:
                del self._known[uuid]
            else:
                yield self._absent(known.row, now_s, gap)

    def _absent(self, row: DeviceRow, now_s: float, gap: Gap) -> Reading:
        age = Age(Window(now_s - self._tools.interval_s, now_s), gap)
        return _reading(row, age)

    def _malformed_lines(self, page: MetricsPage) -> Sequence[Trouble]:
        # Families stand in random order: the first bad line differs from page to page, and a
        # trouble that changes each time would be logged each time.
        if not page.malformed:
            self._malformed = ""
            return ()
        self._malformed = self._malformed or (
            "lines that are not in the Prometheus text format"
            f" ({page.malformed}), the first is {page.first_malformed}"
        )
        return (Trouble(self.endpoint.name, "malformed", self._malformed),)


def _reading(row: DeviceRow, age: Age) -> Reading:
    gaps = dict(row.gaps)
    if age.gap is not None:
        gaps |= dict.fromkeys(row.values, age.gap)
    return Reading(
        device=row.device,
        window=age.window,
        source=SOURCE_NAME,
        values={} if age.gap else row.values,
        gaps=gaps,
        owner=row.owner,
        quality=row.quality,
    )
