"""`otel-ofu replay`: a recording through the same code as life, and what it comes to.

Enters: a recording, or a CSV with a column map. Leaves: a summary per GPU; telemetry if configured.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from otel_ofu.app.agent import stop_signals
from otel_ofu.app.prepare import deriver, prepare
from otel_ofu.app.replay import Replay, recorded_instants
from otel_ofu.app.telemetry import Dependencies, Telemetry
from otel_ofu.cli import options
from otel_ofu.config import ReadConfig
from otel_ofu.export.console import DASH, short_model
from otel_ofu.model import Observation
from otel_ofu.model.clock import SystemClock
from otel_ofu.rules.settings import RulesSettings
from otel_ofu.sources.recording import RecordingSource, read_column_map

INTERRUPTED = 130
MEANS = ("ofu", "tensor_active", "clock_factor", "sm_active", "dram_active", "gpu_util")


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Plays a recording through the same code as life and prints means per GPU. "
        "For the CSV of another program, --columns has what its columns mean "
        "(config/columns/ has examples, docs/recording-format.md explains them)."
    )
    parser.add_argument("file", metavar="FILE", help="a recording of `otel-ofu record`, or a CSV")
    parser.add_argument("--columns", metavar="MAP", help="column map (YAML) of a CSV")
    options.add_config(parser)
    parser.add_argument(
        "--speed",
        type=options.speed,
        default=0.0,
        metavar="N",
        help="recorded seconds per second (default 0: as fast as possible)",
    )
    parser.set_defaults(verb=run)


@dataclass(slots=True)
class _Sums:
    """Running sums of one GPU. Means are over the time of the windows that have a value."""

    model: str = ""
    reference: str = ""
    rounds: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    gaps: dict[str, int] = field(default_factory=dict)

    def add(self, observation: Observation) -> None:
        attributes = observation.entity.attributes
        self.model = short_model(str(attributes.get("hw.model", "")))
        clock = observation.values.get("reference_clock")
        if clock is not None:
            source = observation.state("reference_clock_source")
            self.reference = f"reference clock {clock / 1e6:.0f} MHz from {source}"
        self.rounds += 1
        self._add_means(observation)
        if gap := observation.gaps.get("ofu"):
            reason = gap.reason.value + (f": {gap.detail}" if gap.detail else "")
            self.gaps[reason] = self.gaps.get(reason, 0) + 1

    def _add_means(self, observation: Observation) -> None:
        seconds = observation.window.length_s
        for key in MEANS:
            if key in observation.values:
                self.sums[key] = self.sums.get(key, 0.0) + observation.values[key] * seconds
                self.seconds[key] = self.seconds.get(key, 0.0) + seconds

    def mean(self, key: str) -> str:
        seconds = self.seconds.get(key, 0.0)
        return f"{self.sums[key] / seconds:.4f}" if seconds else DASH


class Summary:
    """A screen that shows nothing until it is closed."""

    def __init__(self) -> None:
        self._gpus: dict[str, _Sums] = {}

    def export(self, observations: Sequence[Observation]) -> None:
        for observation in observations:
            gpu = str(observation.entity.attributes.get("hw.id", observation.entity.id))
            self._gpus.setdefault(gpu, _Sums()).add(observation)

    def close(self) -> None:
        """Nothing is held."""

    def lines(self) -> list[str]:
        """A few lines per GPU."""
        if not self._gpus:
            return ["the recording has no readings"]
        return [line for gpu, sums in self._gpus.items() for line in _lines(gpu, sums)]


def _lines(gpu: str, sums: _Sums) -> list[str]:
    means = "  ".join(f"{key} {sums.mean(key)}" for key in MEANS)
    gaps = [f"  OFU absent {count} times: {reason}" for reason, count in sums.gaps.items()]
    return [
        f"{gpu}  {sums.model}  {sums.rounds} readings  {sums.reference}",
        f"  mean {means}",
        *gaps,
    ]


def run(arguments: argparse.Namespace) -> int:
    config = options.config_of(arguments)
    options.logging_to_stderr(config.agent.log_level)
    columns = read_column_map(arguments.columns) if arguments.columns else None
    source = RecordingSource(arguments.file, columns)
    quiet = replace(config, rules=RulesSettings(enabled=False))
    prepared = prepare(ReadConfig(quiet), os.environ if arguments.config else {})
    shared = Dependencies(prepared, SystemClock(), None, "")
    summary = Summary()
    mode = config.exporters.console.mode if arguments.speed else "off"
    shown = options.screen(mode, f"replay of {arguments.file}")
    with stop_signals() as stopped:
        telemetry = Telemetry(shared, [summary, *shown], stopped)
        telemetry.start()
        try:
            derived = deriver(config.receivers.gpu, "", known=prepared.skus)
            replay = Replay(source, derived, telemetry.export)
            replay.play(recorded_instants(source), arguments.speed, stopped)
        finally:
            telemetry.close(float(config.agent.shutdown_deadline))
            source.close()
    for line in [*summary.lines(), *source.notes]:
        print(line)
    if stopped.is_set():
        print("interrupted: this is what was read until then", file=sys.stderr)
        return INTERRUPTED
    return 0
