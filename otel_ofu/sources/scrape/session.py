"""One endpoint over time: its page becomes readings, its silence becomes gaps.

Enters: instants. Leaves: a `Reading` for each of its devices, and what is wrong with the endpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from otel_ofu.model import Gap, GapReason, Reading, Trouble, Window
from otel_ofu.sources.scrape.client import Fetcher, FetchError
from otel_ofu.sources.scrape.freshness import FORGET_AFTER_S
from otel_ofu.sources.scrape.identity import hosts_of
from otel_ofu.sources.scrape.page import PageReader, PageReadings, ScrapeContext, reading_of
from otel_ofu.sources.scrape.parse import MetricsPage
from otel_ofu.sources.scrape.read import DeviceRow
from otel_ofu.sources.scrape.settings import PageEndpoint


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


_OfDevice = TypeVar("_OfDevice", DeviceRow, Reading)


def _on_host(part: _OfDevice, hosts: Mapping[str, str]) -> _OfDevice:
    host = hosts[part.device.uuid]
    if part.device.host == host:
        return part
    return replace(part, device=replace(part.device, host=host))


class ScrapeTarget:
    """Reads one endpoint. `rows` are the devices of its last page."""

    def __init__(self, endpoint: PageEndpoint, tools: ScrapeContext) -> None:
        self.endpoint = endpoint
        self.rows: Sequence[DeviceRow] = ()
        self._is_local = endpoint.is_local
        self._tools = tools
        self._fetcher = Fetcher(endpoint)
        self._pages = PageReader(tools, endpoint.host)
        self._known: dict[str, _LastSeen] = {}
        self._malformed = ""
        self._conflict = ""

    def read(self, now_s: float) -> ScrapeResult:
        """Never raises for what the endpoint does."""
        try:
            read = self._pages.read(self._fetcher.fetch(), now_s)
            if not read.rows:
                raise self._unknown(read.page)
        except FetchError as error:
            self.rows = ()
            gap = Gap(error.reason, str(error))
            absent = [self._absent(known.row, now_s, gap) for known in self._known.values()]
            return ScrapeResult(absent, answered=False, troubles=(error.trouble,))
        devices = [row.device for row in read.rows]
        hosts = hosts_of(devices, self.endpoint.host, is_local=self._is_local)
        self.rows = [_on_host(row, hosts) for row in read.rows]
        self._known |= {row.device.uuid: _LastSeen(row, now_s) for row in self.rows}
        self._known = {u: seen for u, seen in self._known.items() if u in self._pages.devices}
        readings = [*(_on_host(each, hosts) for each in read.readings), *self._vanished(now_s)]
        return ScrapeResult(readings, answered=True, troubles=self._troubles(read))

    def close(self) -> None:
        self._fetcher.close()

    def _unknown(self, page: MetricsPage) -> FetchError:
        names = {sample.name: None for sample in page.samples}
        first = ", ".join([*names, *page.others][:5]) or "none"
        known = ", ".join(self._tools.vendors.profiles)
        bad = f"; {page.problems[0]}" if page.problems else ""
        return FetchError(
            self.endpoint.name,
            "no GPU on this page that a profile knows"
            f" (its first metrics: {first}; profiles: {known}){bad}",
        )

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
        window = Window(now_s - self._tools.interval_s, now_s)
        return reading_of(row, window, {}, {**row.gaps, **dict.fromkeys(row.values, gap)}, {})

    def _troubles(self, read: PageReadings) -> Sequence[Trouble]:
        troubles = self._line_troubles(read.page)
        if not read.crowded:
            return troubles
        return [*troubles, Trouble(self.endpoint.name, "too_many_devices", read.crowded)]

    def _line_troubles(self, page: MetricsPage) -> Sequence[Trouble]:
        troubles = [*self._malformed_lines(page), *self._conflicts()]
        if page.cut_off is not None:
            # Families stand in random order, so without the line: one text while it lasts.
            detail = "the last line has no line feed: it may be cut off and is not read"
            troubles.append(Trouble(self.endpoint.name, "cut_off", detail))
        return troubles

    def _conflicts(self) -> Iterator[Trouble]:
        """Exporters write families in random order, so the first conflict stands for all."""
        found = [(row, each) for row in self.rows for each in row.conflicts if each.is_fault]
        if not found:
            self._conflict = ""
            return
        row, first = found[0]
        self._conflict = self._conflict or (
            f"lines of one device differ: {first.key} of {row.device.uuid} on line {first.line}"
            f" is not that of line {first.used_line}, which is used;"
            " `otel-ofu doctor --page` shows all"
        )
        yield Trouble(self.endpoint.name, "conflict", self._conflict)

    def _malformed_lines(self, page: MetricsPage) -> Iterator[Trouble]:
        # The first bad line differs from page to page as well, and a trouble that changes each
        # time would be logged each time.
        if not page.malformed:
            self._malformed = ""
            return
        self._malformed = self._malformed or (
            "lines that are not in the Prometheus text format"
            f" ({page.malformed}), the first is {page.problems[0]}"
        )
        yield Trouble(self.endpoint.name, "malformed", self._malformed)
