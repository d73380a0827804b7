"""A simulated node as a `Source`: readings like those of a real one, and the truth beside them.

Enters: a scenario, a seed and the time. Leaves: readings, the true troubles, and what the job
would report about itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from otel_ofu.model import Device, Owner, Reading, Window
from otel_ofu.model.errors import ConfigError, Problem, SourceError
from otel_ofu.sources.demo.gpu import MODEL
from otel_ofu.sources.demo.scenario import (
    Scenario,
    ScenarioTimeline,
    TroubleFact,
    load_library,
    named,
)
from otel_ofu.sources.demo.simulation import PEAK_FLOP_PER_S, DemoReport, Frame, Simulation

GPUS_PER_NODE = 8
MAX_TICKS_BEHIND = 100_000  # starting value: eleven days at 10 s
JOB_ID = "4242"
OWNERS = (Owner({"ofu.job.id": JOB_ID, "ofu.job.source": "demo", "slurm.job.id": JOB_ID}),)


class DemoSource:
    """`scenario` is a name of scenarios.yaml or a `Scenario`; `start_s` is when its story begins.

    Windows lie on the grid start_s + n * interval_s: for equal scenario, seed, gpus, start_s and
    interval_s, `read(now_s)` gives the last whole window before `now_s` with equal values,
    whatever was read before. Raises `ConfigError` for a scenario that cannot be.
    """

    def __init__(
        self,
        scenario: str | Scenario = "tour",
        *,
        seed: int = 0,
        gpus: int = GPUS_PER_NODE,
        start_s: float = 0.0,
        interval_s: float = 10.0,
    ) -> None:
        _check(seed, interval_s)
        chosen = named(scenario) if isinstance(scenario, str) else scenario
        self._story = ScenarioTimeline(chosen, gpus, load_library().troubles)
        self._simulation = Simulation(self._story, gpus, seed, interval_s)
        self._devices = [_device(index, gpus) for index in range(gpus)]
        self._start_s = start_s
        self._interval_s = interval_s
        self._tick = 0

    @property
    def name(self) -> str:
        return "demo"

    @property
    def devices(self) -> Sequence[Device]:
        return self._devices

    def read(self, now_s: float) -> Sequence[Reading]:
        """One reading for each GPU; none before the first window is complete."""
        tick = self._tick_at(now_s)
        if tick < 1:
            return []
        values = self._frame(tick).values
        rows = zip(*(column.tolist() for column in values.values()), strict=True)
        window = Window(self._time_s(tick - 1), self._time_s(tick))
        return [
            Reading(device, window, self.name, dict(zip(values, row, strict=True)), owners=OWNERS)
            for device, row in zip(self._devices, rows, strict=True)
        ]

    def close(self) -> None:
        """Nothing is held."""

    def facts_at(self, time_s: float) -> tuple[TroubleFact, ...]:
        """The troubles that are truly there at this time (Unix seconds)."""
        return self._story.facts(time_s - self._start_s)

    def titles_at(self, time_s: float) -> tuple[str, ...]:
        """The troubles of this time in words; one that comes and goes stays for all of its time."""
        return self._story.titles(time_s - self._start_s)

    def job_reports(self, time_s: float) -> Sequence[DemoReport]:
        """What the job logs about the last whole window before `time_s`, like its own MFU."""
        tick = self._tick_at(time_s)
        if tick < 1:
            return []
        frame = self._frame(tick)
        mfu = frame.true_mfu * frame.miscount
        report = DemoReport(
            self._time_s(tick), frame.step_s, mfu, mfu * PEAK_FLOP_PER_S, frame.true_mfu
        )
        return [report]

    def host_values(self, time_s: float) -> Mapping[str, float]:
        """What the node itself shows in the last whole window, by registry key; gauges alone.

        All nodes of a job are alike. Empty before the first window is complete.
        """
        tick = self._tick_at(time_s)
        return self._frame(tick).host if tick >= 1 else {}

    def _tick_at(self, time_s: float) -> int:
        # A scheduler's instant may fall short of the grid by rounding alone.
        return math.floor((time_s - self._start_s) / self._interval_s + 1e-3)

    def _time_s(self, tick: int) -> float:
        return self._start_s + tick * self._interval_s

    def _frame(self, tick: int) -> Frame:
        if tick - self._tick > MAX_TICKS_BEHIND:
            raise SourceError(
                f"demo: {tick - self._tick} intervals behind, at most {MAX_TICKS_BEHIND}; "
                "start_s and the requested time are too far apart"
            )
        self._tick = tick
        return self._simulation.frame(tick)


def _check(seed: int, interval_s: float) -> None:
    problems = []
    if seed < 0:
        problems.append(f"seed {seed}; 0 or above")
    if not 0 < interval_s < math.inf:
        problems.append(f"interval_s {interval_s:g}; above 0")
    if problems:
        raise ConfigError([Problem("demo", 0, 0, text) for text in problems])


def _device(index: int, gpus: int) -> Device:
    node, local = divmod(index, GPUS_PER_NODE)
    return Device(
        uuid=f"GPU-dem00000-0000-4000-8000-{index:012x}",
        index=local,
        model=MODEL,
        pci_address=f"00000000:{0x1B + 0x11 * local:02X}:00.0",
        driver_version="595.00",
        architecture="hopper",
        host="demo-node" if gpus <= GPUS_PER_NODE else f"demo-node-{node:02d}",
    )
