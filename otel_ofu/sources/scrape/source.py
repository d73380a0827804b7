"""GPUs read from the metrics pages of exporters that run already.

Enters: endpoints. Leaves: readings of all their devices, each device once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

from otel_ofu.catalog.registry import Registry
from otel_ofu.catalog.vendors import Vendors, load_vendors
from otel_ofu.model import Device, Reading, Trouble
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceError
from otel_ofu.sources.scrape.identity import SOURCE_NAME
from otel_ofu.sources.scrape.page import ScrapeContext
from otel_ofu.sources.scrape.session import ScrapeResult, ScrapeTarget
from otel_ofu.sources.scrape.settings import PageEndpoint

MOST_AT_ONCE = 8
"""So many endpoints are read at the same time."""


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """What a page gives of one device; `missing` maps the keys that OFU needs to a remedy."""

    device: Device
    missing: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class EndpointReport:
    """One endpoint after its last read."""

    endpoint: str
    devices: tuple[DeviceReport, ...]


class ScrapeSource:
    """A `Source` over one or more endpoints; one that is away does not disturb the others."""

    def __init__(
        self,
        endpoints: Sequence[PageEndpoint],
        *,
        registry: Registry,
        clock: Clock,
        interval_s: float,
        vendors: Vendors | None = None,
    ) -> None:
        self._vendors = vendors or load_vendors()
        tools = ScrapeContext(self._vendors, registry, clock, interval_s)
        self._targets = [ScrapeTarget(endpoint, tools) for endpoint in endpoints]
        self._results: Sequence[tuple[str, ScrapeResult]] = ()

    @property
    def name(self) -> str:
        return SOURCE_NAME

    def troubles(self) -> Sequence[Trouble]:
        """What is wrong with the endpoints since the last read."""
        return [trouble for _, result in self._results for trouble in result.troubles]

    def targets(self) -> Mapping[str, bool]:
        """Endpoint -> whether it gave a page that could be read."""
        answered = dict.fromkeys((name for name, _ in self._results), True)
        return answered | {name: False for name, result in self._results if not result.answered}

    def read(self, now_s: float) -> Sequence[Reading]:
        results = self._rounds(now_s)
        names = [target.endpoint.name for target in self._targets]
        self._results = tuple(zip(names, results, strict=True))
        if not any(result.answered for result in results):
            details = (f"{trouble.target}: {trouble.detail}" for trouble in self.troubles())
            raise SourceError("; ".join(details) or "no endpoint is configured")
        return self._once(results)

    def describe(self) -> Sequence[EndpointReport]:
        """What the last `read` found, endpoint by endpoint."""
        return [self._report(target) for target in self._targets]

    def close(self) -> None:
        for target in self._targets:
            target.close()

    def _rounds(self, now_s: float) -> list[ScrapeResult]:
        if len(self._targets) <= 1:
            return [target.read(now_s) for target in self._targets]
        waiting: SimpleQueue[tuple[ScrapeTarget, Future[ScrapeResult]]] = SimpleQueue()
        rounds: list[Future[ScrapeResult]] = []
        for target in self._targets:
            rounds.append(Future())
            waiting.put((target, rounds[-1]))
        # Daemons, not an executor: a name server that hangs must not keep the agent from ending.
        for _ in range(min(MOST_AT_ONCE, len(self._targets))):
            Thread(target=_read_all, args=(waiting, now_s), name="scrape", daemon=True).start()
        return [answer.result() for answer in rounds]

    def _once(self, rounds: Sequence[ScrapeResult]) -> list[Reading]:
        """Each device once: an endpoint that answered goes before one that did not."""
        readings: dict[str, Reading] = {}
        for answer in sorted(rounds, key=lambda answer: not answer.answered):
            for reading in answer.readings:
                readings.setdefault(reading.device.uuid, reading)
        return list(readings.values())

    def _report(self, target: ScrapeTarget) -> EndpointReport:
        profiles = self._vendors.profiles
        devices = tuple(
            DeviceReport(
                row.device,
                {k: row.gaps[k].detail for k in profiles[row.profile_id].needs if k in row.gaps},
            )
            for row in target.rows
        )
        return EndpointReport(target.endpoint.name, devices)


def _read_all(
    waiting: SimpleQueue[tuple[ScrapeTarget, Future[ScrapeResult]]], now_s: float
) -> None:
    with suppress(Empty):
        while True:
            target, answer = waiting.get_nowait()
            try:
                answer.set_result(target.read(now_s))
            except Exception as error:  # noqa: BLE001 - raised again where it is awaited
                answer.set_exception(error)
