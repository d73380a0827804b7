"""How far OFU and the ladder are off where the SM clock follows the work, through the NVML source.

Half an hour of each kind of work of tests/sources/nvml/traces.py is played to the C stub of the
driver in virtual time; the source reads it as it would a GPU, and the deriver derives it. Errors
are in points of OFU, against the integral of the trace.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.sources.nvml.played import (  # noqa: E402 - the checkout first
    CYCLES,
    MEAN_CLOCK,
    PlayedWindow,
    errors,
    ladder_errors,
    means,
    play,
    rms,
    uncertainties,
)
from tests.sources.nvml.rig import Rig, Stub, build_stub  # noqa: E402
from tests.sources.nvml.traces import KINDS, trace  # noqa: E402

SECONDS = 1800.0
FIVE_MINUTES_S = 300.0
INTERVALS_S = (5.0, 10.0, 30.0)

Rows = dict[str, float | str]
Play = Callable[..., list[PlayedWindow]]


def run() -> Rows:
    compiler = shutil.which("cc")
    if compiler is None:
        return {"skipped": "no C compiler"}
    with tempfile.TemporaryDirectory() as folder:
        library = build_stub(compiler, Path(folder))
        kinds = {kind: _of_kind(partial(_played, library, kind)) for kind in KINDS}
    rows: Rows = {f"{kind}, points": found.row() for kind, found in kinds.items()}
    return rows | _worst([*kinds.values()])


def _played(
    library: Path, kind: str, interval_s: float, without: Sequence[str]
) -> list[PlayedWindow]:
    rig = Rig(Stub(library))
    try:
        return play(rig, trace(kind, SECONDS), interval_s, without=without)
    finally:
        rig.close()


@dataclass(frozen=True, slots=True)
class _Kind:
    """Errors of one kind of work, in points."""

    windows: Mapping[float, float]
    five_minutes: float
    half_hours: Mapping[float, float]
    covered: float
    rung: float
    at_end: float
    at_end_half_hours: Mapping[float, float]
    counted: float

    def row(self) -> str:
        windows = ", ".join(f"{s:g} s {off:.3f}" for s, off in self.windows.items())
        return (
            f"RMS of windows of {windows}; of means of 5 min {self.five_minutes:.3f}; "
            f"half an hour {abs(self.half_hours[10.0]):.3f}; within 2u {100 * self.covered:.0f} %; "
            f"largest rung off {self.rung:.2f}; windows of 10 s with the clock at their end "
            f"{self.at_end:.2f}, with cycle counters {self.counted:.3f}"
        )


def _of_kind(played: Play) -> _Kind:
    every = {interval_s: played(interval_s, CYCLES) for interval_s in INTERVALS_S}
    ends = {interval_s: played(interval_s, (*CYCLES, *MEAN_CLOCK)) for interval_s in INTERVALS_S}
    wrong, told = errors(every[10.0]), uncertainties(every[10.0])
    return _Kind(
        windows={interval_s: rms(errors(windows)) for interval_s, windows in every.items()},
        five_minutes=rms(means(wrong, round(FIVE_MINUTES_S / 10))),
        half_hours={i: float(errors(windows).mean()) for i, windows in every.items()},
        covered=float((abs(wrong) <= 2 * told).mean()),
        rung=max(abs(off) for off in ladder_errors(every[10.0]).values()),
        at_end=rms(errors(ends[10.0])),
        at_end_half_hours={
            i: float(errors(windows).mean())
            for i, windows in ends.items()
            if len(errors(windows)) == len(windows)
        },
        counted=rms(errors(played(10.0, ()))),
    )


def _apart(half_hours: Mapping[float, float]) -> float:
    """Between the OFU of the same half hour at one interval and at another."""
    return max(half_hours.values(), default=0.0) - min(half_hours.values(), default=0.0)


def _worst(kinds: Sequence[_Kind]) -> Rows:
    return {
        "worst kind: RMS of windows of 10 s, points": max(k.windows[10.0] for k in kinds),
        "worst kind: RMS of windows of 30 s, points": max(k.windows[30.0] for k in kinds),
        "worst kind: RMS of means of 5 min, points": max(k.five_minutes for k in kinds),
        "worst kind: half an hour, points": max(abs(k.half_hours[10.0]) for k in kinds),
        "worst kind: a rung of the ladder, points": max(k.rung for k in kinds),
        "worst kind: half an hour at 5, 10 and 30 s apart, points": max(
            _apart(k.half_hours) for k in kinds
        ),
        "the same with the clock at the end, points": max(
            _apart(k.at_end_half_hours) for k in kinds
        ),
    }


if __name__ == "__main__":
    for what, value in run().items():
        print(what, value)
