"""`otel-ofu record`: what the source reads, into a file that can be replayed.

Enters: a source. Leaves: a recording, line by line, until a signal comes.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from otel_ofu import __version__
from otel_ofu.app.agent import Agent, run_until, stop_signals
from otel_ofu.app.hosts import HOST_NAME, detect_host
from otel_ofu.app.pipeline import Pipeline
from otel_ofu.app.prepare import prepare
from otel_ofu.app.source_reader import Factory
from otel_ofu.app.sources import ChosenSource, choose
from otel_ofu.app.telemetry import Dependencies, Telemetry
from otel_ofu.cli import options
from otel_ofu.config import Config, Jobs, ReadConfig
from otel_ofu.evidence.settings import EvidenceSettings, FlagSettings, HostSettings
from otel_ofu.model import Reading, Trouble, Window
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.rules.settings import RulesSettings
from otel_ofu.sources import Source, costs_of, targets_of, troubles_of
from otel_ofu.sources.recording import RecordingHeader, RecordingWriter


class RecordedSource:
    """A source whose readings are written down as they pass, each window of a device once.

    A source that is read twice within its window gives the same reading again.
    """

    def __init__(self, source: Source, writer: RecordingWriter) -> None:
        self._source = source
        self._writer = writer
        self._written: dict[str, Window] = {}

    @property
    def name(self) -> str:
        return self._source.name

    def read(self, now_s: float) -> Sequence[Reading]:
        readings = self._source.read(now_s)
        self._writer.write([r for r in readings if self._written.get(r.device.uuid) != r.window])
        self._written = {reading.device.uuid: reading.window for reading in readings}
        return readings

    def troubles(self) -> Sequence[Trouble]:
        return troubles_of(self._source)

    def targets(self) -> Mapping[str, bool]:
        return targets_of(self._source)

    def costs(self) -> Mapping[str, float]:
        return costs_of(self._source)

    def close(self) -> None:
        self._source.close()


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Records raw readings (no environment, no process), for a bug report, a rule's "
        "backtest or a demo. `otel-ofu replay FILE` plays it. A file ending in .gz is compressed."
    )
    options.add_config(parser)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the file to write")
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace a file that exists; without it `record` writes nothing and ends with 1",
    )
    parser.add_argument(
        "--for", dest="limit_s", type=options.duration, metavar="TIME", help="stop after this time"
    )
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    config = options.config_of(arguments)
    options.logging_to_stderr(config.agent.log_level)
    chosen = choose(config.receivers.gpu, SystemClock())
    chosen.require()
    if not chosen.sources:
        raise SourceUnavailable("receivers.gpu.source: none has nothing to record; name a source")
    header = RecordingHeader(
        host=detect_host(os.environ, options.host_name())[HOST_NAME],
        agent=f"otel-ofu {__version__}",
        interval_s=float(config.receivers.gpu.interval),
    )
    writer = RecordingWriter(arguments.output, header, overwrite=arguments.force)
    print(f"recording {chosen.message} to {arguments.output}; Ctrl-C stops", file=sys.stderr)
    try:
        with stop_signals() as stopped:
            source = chosen.sources[chosen.name]
            recorded = {chosen.name: partial(_recorded, source, writer)}
            _run(config, replace(chosen, sources=recorded), arguments.limit_s, stopped)
    finally:
        writer.close()
    size = Path(arguments.output).stat().st_size
    lost = f", {writer.lost_ticks} rounds lost" if writer.lost_ticks else ""
    print(f"{arguments.output}: {size} bytes{lost}", file=sys.stderr)
    return 1 if writer.lost_ticks else 0


def _recorded(factory: Factory, writer: RecordingWriter) -> Source:
    return RecordedSource(factory(), writer)


def _run(
    config: Config, chosen: ChosenSource, limit_s: float | None, stopped: threading.Event
) -> None:
    quiet = Config(
        receivers=config.receivers,
        jobs=Jobs(enabled=False),
        evidence=EvidenceSettings(
            flags=FlagSettings(enabled=False), host=HostSettings(enabled=False)
        ),
        rules=RulesSettings(enabled=False),
    )
    prepared = prepare(ReadConfig(quiet), {})
    shared = Dependencies(prepared, SystemClock(), None, options.host_name())
    screens = options.screen(config.exporters.console.mode, "recording")
    telemetry = Telemetry(shared, screens, stopped)
    pipeline = Pipeline(shared, telemetry, options.show(screens))
    run_until(stopped, Agent(prepared, chosen, pipeline), limit_s)
