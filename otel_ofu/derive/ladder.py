"""The ladder: where every point of a window went that is no OFU.

Enters: what was measured in the window, its OFU, its mean clock. Leaves: `gpu_loss:<kind>`, shares
of the window that add up to 1 with the OFU (`boost` is a gain and counts against the others).

Engine activity e is a share of time; SM activity s and tensor activity t are shares of elapsed
cycles, which are of the window's mean clock. k = mean clock / mean clock while busy makes shares of
time of them, because cycles of work elapse at the busy clock: idle = 1 - e, no SM = e - k s, no
tensor = k (s - t), clock = k t (1 - busy clock / reference) = k t - OFU. Nothing is clamped: noise
of the counters may make a rung slightly negative.
"""

from __future__ import annotations

from collections.abc import Mapping

from otel_ofu.derive.cleaning import MeasuredValues
from otel_ofu.derive.efficiency import FIXED_CLOCK, tensor_activity
from otel_ofu.model import Gap

LOSS, LOST_TIME = "gpu_loss", "gpu_time_lost"
KINDS = ("idle", "no_sm", "no_tensor", "clock", "boost", "unsplit")
"""`unsplit`: no_sm, no_tensor and clock together, where the clock while busy is not known."""
MERGED = (
    "idle_and_no_sm",
    "no_sm_and_no_tensor",
    "idle_and_no_sm_and_no_tensor",
    "idle_and_unsplit",
)
"""In place of rungs that cannot be told apart because a counter between them is missing."""

NEARLY_ALWAYS = 0.98
"""Starting value: a GPU that was busy for so long had its mean clock while it was busy."""


def ladder(
    measured: MeasuredValues, quality: str, ofu: float, mean_hz: float | None
) -> Mapping[str, float]:
    """The rungs of a window that has an OFU; `mean_hz`: the mean clock of the window."""
    values = measured.values
    tensor = tensor_activity(measured)
    engine, sm = values.get("gr_engine_active"), values.get("sm_active")
    k = 1.0 if quality == FIXED_CLOCK else _busy_factor(values, mean_hz)
    if k is None or isinstance(tensor, Gap):  # a gap where OFU is from cycles alone
        return _keyed(_unsplit(engine, ofu))
    clock = k * tensor - ofu
    rungs = {"clock": max(clock, 0.0), "boost": max(-clock, 0.0)}
    return _keyed(rungs | _activities(engine, None if sm is None else k * sm, k * tensor))


def _busy_factor(values: Mapping[str, float], mean_hz: float | None) -> float | None:
    """The mean clock over the mean clock while busy; None where that is not known."""
    busy_hz, engine = values.get("sm_clock_busy"), values.get("gr_engine_active")
    if busy_hz and mean_hz is not None:
        return mean_hz / busy_hz
    if engine is not None and engine >= NEARLY_ALWAYS:
        return 1.0
    works = any(values.get(key, 1.0) > 0 for key in ("sm_active", "tensor_active"))
    return None if works else 1.0


def _activities(engine: float | None, sm: float | None, tensor: float) -> dict[str, float]:
    """`sm` and `tensor` as shares of time."""
    if engine is None:
        if sm is None:
            return {"idle_and_no_sm_and_no_tensor": 1 - tensor}
        return {"idle_and_no_sm": 1 - sm, "no_tensor": sm - tensor}
    if sm is None:
        return {"idle": 1 - engine, "no_sm_and_no_tensor": engine - tensor}
    return {"idle": 1 - engine, "no_sm": engine - sm, "no_tensor": sm - tensor}


def _unsplit(engine: float | None, ofu: float) -> dict[str, float]:
    if engine is None:
        return {"idle_and_unsplit": 1 - ofu}
    return {"idle": 1 - engine, "unsplit": engine - ofu}


def _keyed(rungs: Mapping[str, float]) -> Mapping[str, float]:
    return {f"{LOSS}:{kind}": value for kind, value in rungs.items()}
