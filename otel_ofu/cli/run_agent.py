"""`otel-ofu run`: the agent.

Enters: a config. Leaves: telemetry until a signal comes; the exit status.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from dataclasses import dataclass

from otel_ofu import __version__
from otel_ofu.app.agent import Agent, run_until, stop_signals
from otel_ofu.app.hosts import HOST_NAME, detect_host
from otel_ofu.app.pipeline import Pipeline
from otel_ofu.app.prepare import PreparedConfig, prepare
from otel_ofu.app.sources import ChosenSource, SourceCandidate, SourceProblem, choose
from otel_ofu.app.state import state_dir
from otel_ofu.app.telemetry import Dependencies, Telemetry
from otel_ofu.cli import options
from otel_ofu.cli.demo import run_demo
from otel_ofu.config import read_config
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import SourceUnavailable

log = logging.getLogger("otel_ofu")


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Reads the GPUs of this machine, derives OFU, and sends it. Without a config "
        "the source is found by itself (DCGM, NVML, or an exporter on localhost:9400) and "
        "OTEL_EXPORTER_OTLP_ENDPOINT is where to send."
    )
    options.add_config(parser)
    parser.add_argument(
        "--check",
        action="store_true",
        help="check the config and whether GPUs can be read, and stop",
    )
    parser.add_argument(
        "--or-demo",
        action="store_true",
        help="show the simulated node where no source works (make run does that)",
    )
    parser.add_argument(
        "--for", dest="limit_s", type=options.duration, metavar="TIME", help="stop after this time"
    )
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    prepared = prepare(read_config(arguments.config), os.environ)
    if arguments.check:
        return _check(prepared, arguments.config or "the default configuration")
    config = prepared.config
    options.logging_to_stderr(config.agent.log_level)
    chosen = choose(config.receivers.gpu, SystemClock())
    try:
        chosen.require()
    except SourceUnavailable as error:
        if arguments.or_demo:
            print(f"no GPU counters on this machine, so this is the demo node.\n{error}\n")
            return run_demo(prepared, speed=60.0, limit_s=arguments.limit_s)
        _log_waiting(error)
    return _Run(prepared, chosen, arguments.limit_s).run()


def _check(prepared: PreparedConfig, name: str) -> int:
    """Besides the configuration, which is good, tries whatever gives the agent its GPUs."""
    chosen = choose(prepared.config.receivers.gpu, SystemClock())
    if not chosen.shortage:
        print(f"{name}: ok")
        return 0
    print(f"{name}: the configuration is valid; {chosen.shortage}", flush=True)
    for line in chosen.troubles():
        print(f"{name}: {line}", file=sys.stderr)
    return 1


def _log_probes(chosen: ChosenSource) -> None:
    """What the probes found that no round of reading tells, with what to do about it.

    Sources that are read report what is wrong with them each round: the one that is used, and all
    of them while there is none.
    """
    for candidate in chosen.candidates:
        if chosen.name and not candidate.usable:
            _log_with_remedy(logging.INFO, candidate.name, candidate)
        is_read = candidate.name == chosen.name or not chosen.name
        for problem in candidate.problems:
            if problem.remedy or not is_read:
                _log_with_remedy(logging.WARNING, candidate.name, problem)


def _log_with_remedy(level: int, name: str, found: SourceCandidate | SourceProblem) -> None:
    remedy = f"; {found.remedy}" if found.remedy else ""
    log.log(level, "%s: %s%s", name, found.message, remedy)


def _log_waiting(error: SourceUnavailable) -> None:
    """What a peer answers does not end the start: its exporter or driver may come later.

    The first round tells what is wrong with each source.
    """
    if error.remedy:
        log.warning("no source of GPU counters works here; %s", error.remedy)


@dataclass(frozen=True)
class _Run:
    prepared: PreparedConfig
    chosen: ChosenSource
    limit_s: float | None

    def run(self) -> int:
        with stop_signals() as stopped:
            self._run(stopped)
        return 0

    def _run(self, stopped: threading.Event) -> None:
        config, targets = self.prepared.config, self.prepared.targets
        sends = bool(targets or config.exporters.file.path or config.exporters.prometheus.listen)
        keeps = bool(targets) or config.rules.enabled
        folder = state_dir(config.state_dir, os.environ) if keeps else None
        machine = detect_host(os.environ, options.host_name())
        shared = Dependencies(self.prepared, SystemClock(), folder, machine[HOST_NAME], machine)
        title = f"otel-ofu {__version__}: {self.chosen.message}"
        screens = options.screen(config.exporters.console.mode, title, sends=sends)
        telemetry = Telemetry(shared, screens, stopped)
        pipeline = Pipeline(shared, telemetry, options.show(screens))
        agent = Agent(self.prepared, self.chosen, pipeline)
        print(self._first_line(telemetry, agent), file=sys.stderr, flush=True)
        _log_probes(self.chosen)
        run_until(stopped, agent, self.limit_s)

    def _first_line(self, telemetry: Telemetry, agent: Agent) -> str:
        interval_s = float(self.prepared.config.receivers.gpu.interval)
        where = ", ".join(telemetry.endpoints) or "this terminal alone (no exporter is configured)"
        listens = f", listening at {', '.join(agent.endpoints)}" if agent.endpoints else ""
        reads = f"{self.chosen.message}{listens}"
        return f"otel-ofu {__version__}: {reads}, every {interval_s:g} s, to {where}"
