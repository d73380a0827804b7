"""All exporters behind one `export`: encoded once, queued for each, shown, served, written.

Enters: the observations of a round. Leaves: nothing; a trouble of one exporter never touches
another, and everything that is lost is counted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from otel_ofu import __version__
from otel_ofu.app.prepare import PreparedConfig
from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.config import Config
from otel_ofu.export.agent import AgentMetrics, agent_id
from otel_ofu.export.file import FileExporter, FileOptions
from otel_ofu.export.logs import encode_logs
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.export.otlp import transport_for
from otel_ofu.export.prometheus import METRICS, PageOptions, PrometheusPage, page_server
from otel_ofu.export.settings import Signal
from otel_ofu.export.targets import OtlpTarget
from otel_ofu.model import Attribute, Observation
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.model.event import Event
from otel_ofu.net.http_server import HttpServer
from otel_ofu.notify import queue_limits
from otel_ofu.outbox.batch import Body, Limits, Priority
from otel_ofu.outbox.outcome import Transport
from otel_ofu.outbox.queues import Outbox
from otel_ofu.outbox.sender import Sender

log = logging.getLogger(__name__)


class Screen(Protocol):
    """Something that shows observations to a person (otel_ofu.export.console)."""

    def export(self, observations: Sequence[Observation]) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What the parts of an agent share. `state_dir` None keeps everything in memory.

    `host`: the name of this node, unless the user gives another; `machine`: what else is known of
    the machine.
    """

    prepared: PreparedConfig
    clock: Clock
    state_dir: Path | None
    host: str
    machine: Mapping[str, str] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        return self.prepared.config

    @property
    def host_name(self) -> str:
        return self.prepared.host_name(self.host)


@dataclass(slots=True)
class _Parts:
    senders: dict[str, Sender] = field(default_factory=dict)
    file: FileExporter | None = None
    page: PrometheusPage | None = None
    server: HttpServer | None = None
    screens: list[Screen] = field(default_factory=list)


class Telemetry:
    """Built whole or not at all: ConfigError names what is wrong with which exporter.

    `unseen` is set when a screen went away (a closed pipe) and nothing else takes what is exported.
    """

    def __init__(
        self, shared: Dependencies, screens: Sequence[Screen], unseen: threading.Event
    ) -> None:
        self._shared = shared
        self._unseen = unseen
        self._writing = threading.Lock()
        self.targets = shared.prepared.targets
        registry, common = load_registry(), common_attributes(shared)
        self._common = common
        self.meter = AgentMetrics(registry, common, agent_id(shared.state_dir, shared.host))
        self._encoder = MetricEncoder(
            registry, _of_series(common), EncoderOptions(shared.clock.now_s(), __version__)
        )
        self.meter.watch("encoder", lambda: {"unknown_keys": self._encoder.unknown_keys})
        self.outbox = self._open_outbox()
        self._parts = _Parts(screens=list(screens))
        self._parts.senders = {target.name: self._sender(target) for target in self.targets}
        self._open_file()
        self._open_page(registry, common)

    @property
    def endpoints(self) -> list[str]:
        """Where telemetry goes, for people."""
        parts = self._parts
        served = [f"http://{parts.server.address}{METRICS}"] if parts.server else []
        path = self._shared.config.exporters.file.path
        return [*(target.endpoint for target in self.targets), *served, *([path] if path else [])]

    def start(self) -> None:
        for sender in self._parts.senders.values():
            sender.start()
        if self._parts.server:
            self._parts.server.start()

    def export(
        self,
        observations: Sequence[Observation],
        more: Sequence[Observation] = (),
        ended: Sequence[Observation] = (),
    ) -> None:
        """One round to everybody; `more`, `ended` are for programs alone. Called from one thread.

        `ended`: what is left of a GPU whose job ended. Its other series end before those of the
        next job begin.
        """
        living = [*observations, *more]
        if self._parts.page:
            self._parts.page.update([*living, *ended], self._shared.clock.now_s())
        if self._parts.senders or self._parts.file:
            self._send(self._encoder.encode(living, ended))
        for screen in tuple(self._parts.screens):
            self._show(screen, observations)

    def export_between(self, observations: Sequence[Observation]) -> None:
        """More of single entities between two rounds; ends nothing. Never beside `export`."""
        if self._parts.page:
            self._parts.page.add(observations)
        if self._parts.senders or self._parts.file:
            self._send(self._encoder.encode_between(observations))

    def export_event(self, event: Event) -> None:
        """One event, kept before it is sent, ahead of all metrics. Called from any thread."""
        bodies = encode_logs([event], self._common, __version__)
        self._send(bodies, "logs", Priority.EVENTS)

    def export_own(self) -> None:
        """The agent's own metrics."""
        stats = {name: queue.stats() for name, queue in self.outbox.queues.items()}
        body = self.meter.collect(stats)
        if body is not None:
            self._send([body])

    def close(self, deadline_s: float) -> None:
        """Ends all series, sends what it can within the deadline, keeps the rest on disk."""
        self.drain(deadline_s)
        self.end()

    def drain(self, deadline_s: float) -> None:
        """Ends all series and sends what it can within the deadline."""
        for screen in self._parts.screens:
            with suppress(OSError):  # its reader went away; nobody sees it
                screen.close()
        if self._parts.senders or self._parts.file:
            self._send(self._encoder.encode(()))
            self.export_own()
        self._drain(deadline_s)

    def end(self) -> None:
        """Lets go of ports and files."""
        if self._parts.server:
            self._parts.server.close()
        if self._parts.file:
            self._parts.file.close()
        self.meter.close()
        self.outbox.close()

    def _drain(self, deadline_s: float) -> None:
        end_s = self._shared.clock.monotonic_s() + deadline_s
        for sender in self._parts.senders.values():
            sender.stop(deadline_s)  # all at once: one that hangs must not eat the others' time
        for name, sender in self._parts.senders.items():
            left = sender.shutdown(max(0.0, end_s - self._shared.clock.monotonic_s()))
            if left:
                kept = min(left, self.outbox.queues[name].kept())
                log.warning("%s: %d requests not sent: %s", name, left, _fate(kept, left - kept))

    def _send(
        self,
        bodies: Sequence[Body],
        signal: Signal = "metrics",
        priority: Priority = Priority.METRICS,
    ) -> None:
        for target in self.targets:
            if signal in target.signals:
                for body in bodies:
                    self.outbox.queues[target.name].put(body, priority)
        if self._parts.file:
            with self._writing:
                self._parts.file.export(bodies)

    def _show(self, screen: Screen, observations: Sequence[Observation]) -> None:
        try:
            screen.export(observations)
        except OSError as error:
            self._parts.screens.remove(screen)
            if self.endpoints:
                log.warning("terminal: %s; nothing more is shown", error.strerror)
            else:
                self._unseen.set()

    def _open_outbox(self) -> Outbox:
        outbox = self._shared.config.outbox
        limits = {t.name: Limits(outbox.max_size, outbox.max_age) for t in self.targets}
        limits |= queue_limits(self._shared.config.route)
        folder = self._shared.state_dir
        path = folder / "outbox.sqlite" if folder and limits else None
        return Outbox(path, limits, self._shared.clock, self.meter.exported)

    def _sender(self, target: OtlpTarget) -> Sender:
        transports: dict[str, Transport] = {
            signal: transport_for(settings) for signal, settings in target.signals.items()
        }
        queue = self.outbox.queues[target.name]
        return Sender(queue, transports, self._shared.clock, observe=self.meter.exported)

    def _open_file(self) -> None:
        written = self._shared.config.exporters.file
        if written.path:
            options = FileOptions(Path(written.path), written.max_size, written.backups)
            try:
                self._parts.file = FileExporter(options, observe=self.meter.exported)
            except ValueError as error:
                raise ConfigError([Problem("exporters.file.path", 0, 0, str(error))]) from error

    def _open_page(self, registry: Registry, common: Mapping[str, Attribute]) -> None:
        config, clock = self._shared.config, self._shared.clock
        if config.exporters.prometheus.listen:
            page = PrometheusPage(registry, common, PageOptions(config.receivers.gpu.interval))
            try:
                self._parts.server = page_server(
                    lambda: page.text(clock.now_s()), config.exporters.prometheus
                )
            except ValueError as error:
                key = "exporters.prometheus.listen"
                raise ConfigError([Problem(key, 0, 0, str(error))]) from error
            self._parts.page = page


def _fate(kept: int, lost: int) -> str:
    if not lost:
        return "kept for the next start"
    return f"{kept} kept for the next start, {lost} lost" if kept else "lost"


def _of_series(common: Mapping[str, Attribute]) -> dict[str, Attribute]:
    """Without the version of the agent: its update ends no series of a GPU or job."""
    return {name: value for name, value in common.items() if name != "service.version"}


def common_attributes(shared: Dependencies) -> dict[str, Attribute]:
    """What the resource of everything that is sent has in common."""
    return {
        "service.name": "otel-ofu",
        "host.name": shared.host,
        **shared.machine,
        **shared.prepared.attributes,
        "service.version": __version__,
    }
