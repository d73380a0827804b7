"""What one page of an exporter gives: for a person who sets an exporter up.

Enters: the page as a file, `-` or a URL; the config. Leaves: a `PageReport`; nothing is changed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.app.prepare import deriver
from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.vendors import load_vendors
from otel_ofu.config import Config
from otel_ofu.files.pipe import read_pipe
from otel_ofu.model import Observation, Reading
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import ConfigError, Problem, SourceError
from otel_ofu.sources.scrape import endpoint_at, endpoints_of
from otel_ofu.sources.scrape.client import Fetcher, decoded, unusable
from otel_ofu.sources.scrape.explain import PageExplanation, explain
from otel_ofu.sources.scrape.page import ScrapeContext
from otel_ofu.sources.scrape.settings import PageEndpoint

STDIN = "-"
PIPE_S = 60.0
"""Starting value: several times what an exporter may take for its page."""


@dataclass(frozen=True, slots=True)
class PageGpu:
    """A device of the page: its reading, what is derived of it, and the exporter's title."""

    reading: Reading
    observation: Observation
    exporter: str


@dataclass(frozen=True, slots=True)
class PageReport:
    """`name` is the page's, without credentials."""

    name: str
    explanation: PageExplanation
    gpus: Sequence[PageGpu]

    @property
    def is_complete(self) -> bool:
        """Whether each GPU, or each of its instances, has an OFU, and every line could be read."""
        parents = {gpu.reading.device.parent for gpu in self.gpus}
        whole = [gpu for gpu in self.gpus if gpu.reading.device.uuid not in parents]
        has_ofu = bool(whole) and all("ofu" in gpu.observation.values for gpu in whole)
        page = self.explanation
        return has_ofu and not page.malformed and page.cut_off is None


def examine_page(target: str, config: Config, clock: Clock) -> PageReport:
    """Reads the page once. ConfigError for what `target` cannot be, SourceError for no page."""
    gpu = config.receivers.gpu
    context = ScrapeContext(load_vendors(), load_registry(), clock, float(gpu.interval))
    if "://" in target:
        endpoint = _endpoint(target, config)
        name, text, host = endpoint.name, _fetched(endpoint), endpoint.host
    else:
        name = "standard input" if target == STDIN else target
        text, host = _read(target, name, int(gpu.scrape.max_body)), "localhost"
    page = explain(text, context, host, clock.now_s() if "://" in target else None)
    derived = deriver(gpu, "")
    by_uuid = {reading.device.uuid: reading for reading in page.readings}
    gpus = [
        PageGpu(
            reading,
            derived.derive(reading, by_uuid.get(reading.device.parent)),
            page.exporters[reading.device.uuid],
        )
        for reading in page.readings
    ]
    return PageReport(name, page, gpus)


def _endpoint(url: str, config: Config) -> PageEndpoint:
    """As the config has it, with its credentials, else the bare URL."""
    given = endpoint_at(url)
    known = endpoints_of(config.receivers.gpu.scrape)
    return next((endpoint for endpoint in known if endpoint.url == given.url), given)


def _fetched(endpoint: PageEndpoint) -> str:
    fetcher = Fetcher(endpoint)
    try:
        return fetcher.fetch()
    finally:
        fetcher.close()


def _read(path: str, name: str, limit_bytes: int) -> str:
    body = _bytes(path, limit_bytes + 1)
    if len(body) > limit_bytes:
        raise SourceError(f"{name}: the page is larger than {limit_bytes} bytes (max_body)")
    fault = unusable(body)
    if fault is not None:
        raise SourceError(f"{name}: {fault.detail}")
    return decoded(body)


def _bytes(path: str, count: int) -> bytes:
    if path == STDIN:
        return sys.stdin.buffer.read(count)
    if Path(path).is_fifo():  # <(curl ...) of a shell
        return _piped(path, count)
    if not Path(path).is_file():
        raise ConfigError([Problem(f"--page {path}", 0, 0, _no_file(Path(path)))])
    with Path(path).open("rb") as file:
        return file.read(count)


def _piped(path: str, count: int) -> bytes:
    try:
        return read_pipe(path, count, PIPE_S)
    except TimeoutError as error:
        raise SourceError(f"{path}: no end of the page came within {PIPE_S:g} s") from error


def _no_file(path: Path) -> str:
    if path.is_dir():
        return "a directory; name the file of a page in it"
    if path.exists():
        return "neither a file nor a pipe"
    return "no such file; a page on the network begins with http:// or https://"
