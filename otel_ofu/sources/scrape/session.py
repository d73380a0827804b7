"""One endpoint over time: its page becomes readings, its silence becomes gaps.

Enters: instants. Leaves: a `Reading` for each of its devices, and what is wrong with the endpoint.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from otel_ofu.catalog.registry import Registry
from otel_ofu.catalog.vendors import Vendors
from otel_ofu.model import Gap, GapReason, Reading, Window
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceError
from otel_ofu.net.http_client import Failure, HttpClient, HttpError, Response
from otel_ofu.net.secrets import SecretError, authorization
from otel_ofu.net.tls import TlsFiles
from otel_ofu.sources.scrape.freshness import FORGET_AFTER_S, Age, DeviceValues, Freshness
from otel_ofu.sources.scrape.identity import SOURCE_NAME
from otel_ofu.sources.scrape.parse import MetricsPage, parse
from otel_ofu.sources.scrape.read import DeviceRow, PageMapping
from otel_ofu.sources.scrape.settings import PageEndpoint

_HINTS = {
    401: "set username and password_file, or bearer_token_file",
    403: "the credentials are known but may not read the page",
    404: "no page at this path; exporters mostly use /metrics",
}
_FAILURES = {
    Failure.UNTRUSTED: "{}; set ca_file",
    Failure.REFUSED: "connection refused; is the exporter running?",
    Failure.NO_HOST: "the host name is not known ({})",
}


class FetchError(SourceError):
    """The endpoint gave no page; `reason` is for the gaps in place of its values."""

    def __init__(self, message: str, reason: GapReason = GapReason.FAILED) -> None:
        super().__init__(message)
        self.reason = reason


class Fetcher:
    """Fetches one endpoint again and again over one connection. Belongs to one thread."""

    def __init__(self, endpoint: PageEndpoint) -> None:
        self._endpoint = endpoint
        # The ca_file may be there later: it is read when connecting.
        self._client = HttpClient(
            TlsFiles(ca_file=endpoint.ca_file), limit_bytes=endpoint.limit_bytes
        )

    def fetch(self) -> str:
        """The page as text. FetchError if there is none within `timeout_s` and `limit_bytes`."""
        endpoint = self._endpoint
        headers = self._headers()
        try:
            response = self._client.get(endpoint.url, headers, endpoint.timeout_s)
        except HttpError as error:
            text = _FAILURES.get(error.failure, "{}").format(error)
            raise self._error(text) from error
        self._check_status(response)
        return self._checked(response)

    def close(self) -> None:
        self._client.close()

    def _headers(self) -> dict[str, str]:
        endpoint = self._endpoint
        try:
            credentials = authorization(
                token_file=endpoint.bearer_token_file,
                username=endpoint.username,
                password_file=endpoint.password_file,
                password=endpoint.password,
            )
        except SecretError as error:
            raise self._error(str(error), GapReason.NOT_PERMITTED) from error
        return {"Accept": "text/plain;version=0.0.4;q=1,text/plain;q=0.5", **credentials}

    def _check_status(self, response: Response) -> None:
        if response.status == http.client.OK:
            return
        text = f"answered {response.status_line}"
        if response.location:
            target = urlsplit(response.location)
            where = f"{target.scheme}://{target.hostname}{target.path}"
            text += f" (to {where if target.hostname else target.path}); redirects are not followed"
        elif response.status in _HINTS:
            text += f"; {_HINTS[response.status]}"
        denied = response.status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN)
        raise self._error(text, GapReason.NOT_PERMITTED if denied else GapReason.FAILED)

    def _checked(self, response: Response) -> str:
        body = response.body
        if response.truncated:
            limit = self._endpoint.limit_bytes
            raise self._error(f"the page is larger than {limit} bytes (max_body)")
        if not body.strip():
            raise self._error(
                "the page is empty (an exporter that is starting or reloading answers so)",
                GapReason.NOT_READY,
            )
        if "html" in response.content_type or body.lstrip()[:1] == b"<":
            raise self._error("answered with HTML, not metrics; exporters mostly use /metrics")
        if not body.endswith(b"\n"):
            raise self._error("the page was cut off: its last line has no end")
        return body.decode("utf-8", errors="replace")

    def _error(self, text: str, reason: GapReason = GapReason.FAILED) -> FetchError:
        return FetchError(f"{self._endpoint.name}: {text}", reason)


@dataclass(frozen=True, slots=True)
class Tools:
    """What all targets share."""

    vendors: Vendors
    registry: Registry
    clock: Clock
    interval_s: float


@dataclass(frozen=True, slots=True)
class ScrapeResult:
    """One read of one endpoint. `answered` is whether it gave a page that could be read.

    `problem` is what is wrong with it, in a text that does not change while it lasts, or empty.
    """

    readings: Sequence[Reading]
    answered: bool
    problem: str = ""


@dataclass(slots=True)
class _LastSeen:
    """A device as last seen on a page, so that its absence can be reported."""

    row: DeviceRow
    seen_s: float


class ScrapeTarget:
    """Reads one endpoint. `rows` are the devices of its last page."""

    def __init__(self, endpoint: PageEndpoint, tools: Tools) -> None:
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
            return ScrapeResult(absent, answered=False, problem=str(error))
        readings = [*self._readings(now_s), *self._vanished(now_s)]
        return ScrapeResult(readings, answered=True, problem=self._complaint(page))

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
            f"{self.endpoint.name}: no GPU on this page that a profile knows"
            f" (its first metrics: {first}; profiles: {known}){bad}"
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

    def _complaint(self, page: MetricsPage) -> str:
        # Families stand in random order: the first bad line differs from page to page, and a
        # complaint that changes each time would be logged each time.
        if not page.malformed:
            self._malformed = ""
        elif not self._malformed:
            self._malformed = (
                f"{self.endpoint.name}: lines that are not in the Prometheus text format"
                f" ({page.malformed}), the first is {page.first_malformed}"
            )
        return self._malformed


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
