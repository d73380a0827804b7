"""`otel-ofu demo`: a simulated node, for a machine without a GPU.

Enters: a scenario and a speed. Leaves: its numbers through the same code as real ones.
"""

from __future__ import annotations

import argparse
import math
import os
import threading
from collections.abc import Sequence
from itertools import takewhile

from msgspec.structs import replace

from otel_ofu.app.agent import stop_signals
from otel_ofu.app.demo_collectors import DemoCollector
from otel_ofu.app.pipeline import Pipeline
from otel_ofu.app.prepare import PreparedConfig, deriver, prepare
from otel_ofu.app.replay import Replay, demo_instants
from otel_ofu.app.telemetry import Dependencies, Telemetry
from otel_ofu.cli import options
from otel_ofu.config import Config, ReadConfig
from otel_ofu.export.console import GpuTable, Lines
from otel_ofu.model import Observation
from otel_ofu.model.clock import SystemClock, VirtualClock
from otel_ofu.sources.demo import DemoSource, load_library

ScreenType = Lines | GpuTable

HOST = "demo-node"


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows a simulated node under a training job. Its physics is modelled, and its "
        "counters go through the same code as those of real GPUs."
    )
    options.add_config(parser)
    parser.add_argument("--scenario", metavar="NAME", help="what happens; --list shows the names")
    parser.add_argument("--list", action="store_true", help="list the scenarios and stop")
    parser.add_argument(
        "--speed",
        type=options.speed,
        default=60.0,
        metavar="N",
        help="seconds of the demo per second (default 60; 0: as fast as possible)",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="the same seed gives the same numbers"
    )
    parser.add_argument("--gpus", type=int, metavar="N", help="how many GPUs (default 8)")
    parser.add_argument(
        "--for",
        dest="limit_s",
        type=options.duration,
        metavar="TIME",
        help="stop after this much of the demo's time, e.g. 60s or 30m",
    )
    parser.set_defaults(verb=run)


class ScenarioWriter:
    """Shows on the screens what truly happens on the simulated node, when it changes."""

    def __init__(self, source: DemoSource, screens: Sequence[ScreenType]) -> None:
        self._source = source
        self._screens = screens
        self._shown = ""

    def export(self, observations: Sequence[Observation]) -> None:
        if not observations:
            return
        titles = self._source.titles_at(observations[0].window.end_s)
        text = "; ".join(titles) or "a healthy training job"
        if text != self._shown:
            for screen in self._screens:
                screen.note(f"what happens: {text}")
            self._shown = text

    def close(self) -> None:
        """Nothing is held."""


def run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        return _list()
    config = _with_arguments(options.config_of(arguments), arguments)
    options.logging_to_stderr(config.agent.log_level)
    prepared = prepare(ReadConfig(config), os.environ)
    return run_demo(prepared, speed=arguments.speed, limit_s=arguments.limit_s)


def _list() -> int:
    library = load_library()
    for name, scenario in library.scenarios.items():
        troubles = dict.fromkeys(span.trouble for span in scenario.spans)
        titles = "; ".join(library.troubles[trouble].title for trouble in troubles)
        print(f"{name:16} {titles or 'nothing is wrong'}")
    return 0


def _with_arguments(config: Config, arguments: argparse.Namespace) -> Config:
    given = {
        key: getattr(arguments, key)
        for key in ("scenario", "seed", "gpus")
        if getattr(arguments, key) is not None
    }
    gpu = config.receivers.gpu
    gpu = replace(gpu, demo=options.checked(replace(gpu.demo, **given)))
    return replace(config, receivers=replace(config.receivers, gpu=gpu))


def run_demo(prepared: PreparedConfig, *, speed: float, limit_s: float | None) -> int:
    """Plays the scenario of the config, from now on, until a signal or `limit_s` is over."""
    with stop_signals() as stopped:
        _play(prepared, speed, limit_s, stopped)
    return 0


def _play(
    prepared: PreparedConfig, speed: float, limit_s: float | None, stopped: threading.Event
) -> None:
    config, real = prepared.config, SystemClock()
    gpu = config.receivers.gpu
    interval_s = float(gpu.interval)
    start_s = math.floor(real.now_s() / interval_s) * interval_s
    source = _source(config, start_s)
    pace = f"{speed:g} x real time" if speed else "as fast as possible"
    title = f"otel-ofu demo: simulated node, scenario {gpu.demo.scenario}, {pace}"
    screens = options.screen(config.exporters.console.mode, title)
    if not any(isinstance(each, GpuTable) for each in screens):
        print(title, flush=True)
    shared = Dependencies(prepared, real, None, HOST)
    telemetry = Telemetry(shared, [ScenarioWriter(source, screens), *screens], stopped)
    clock = VirtualClock(start_s)
    pipeline = Pipeline(shared, telemetry, options.show(screens), clock)
    pipeline.collectors.append(DemoCollector(prepared, source, pipeline.host))
    pipeline.start()
    given = prepared.attributes.get("host.name", "")
    derived = deriver(gpu, HOST, known=prepared.skus, node_name=given)
    instants = demo_instants(start_s, interval_s)
    if limit_s is not None:
        instants = takewhile(lambda now_s: now_s <= start_s + limit_s + 1e-6, instants)
    try:
        replay = Replay(source, derived, pipeline.take, clock, pipeline.judge)
        replay.play(instants, speed, stopped)
    finally:
        pipeline.close(float(config.agent.shutdown_deadline))


def _source(config: Config, start_s: float) -> DemoSource:
    demo, interval_s = config.receivers.gpu.demo, float(config.receivers.gpu.interval)
    return DemoSource(
        demo.scenario, seed=demo.seed, gpus=demo.gpus, start_s=start_s, interval_s=interval_s
    )
