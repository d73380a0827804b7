"""What one GPU lets this agent read, for people: the answer of `otel-ofu doctor`.

Enters: a board. Leaves: `DeviceSupport`, found by asking the driver once.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from otel_ofu.model import Device, Gap, GapReason
from otel_ofu.sources.nvml.devices import Board
from otel_ofu.sources.nvml.gpm import gpm_refusal
from otel_ofu.sources.nvml.statuses import DeviceLost, gap_of
from otel_ofu.sources.nvml.table import SM_CLOCK


@dataclass(frozen=True, slots=True)
class DeviceSupport:
    """One GPU. `gpm_problem` and `mig_problem` are empty when there is none.

    `permitted`: False if the driver refused GPM for want of rights. `max_sm_clock_hz` is None
    where the driver does not tell it.
    """

    device: Device
    has_gpm: bool
    gpm_problem: str
    permitted: bool
    mig_enabled: bool
    mig_problem: str
    instances: tuple[Device, ...]
    max_sm_clock_hz: float | None


def support_of(nvml: ModuleType, board: Board) -> DeviceSupport:
    """Takes one GPM sample and gives it back. Raises `SourceError` when the session is over."""
    gap = _gpm_gap(nvml, board)
    return DeviceSupport(
        device=board.device,
        has_gpm=gap is None,
        gpm_problem=gap.detail if gap else "",
        permitted=gap is None or gap.reason is not GapReason.NOT_PERMITTED,
        mig_enabled=board.mig_enabled,
        mig_problem=board.mig_note,
        instances=tuple(instance.device for instance in board.instances),
        max_sm_clock_hz=_max_sm_clock_hz(nvml, board),
    )


def _gpm_gap(nvml: ModuleType, board: Board) -> Gap | None:
    try:
        refusal = gpm_refusal(nvml, board.handle, board.device.driver_version)
        return Gap(GapReason.NOT_SUPPORTED, refusal) if refusal else _sample_gap(nvml, board)
    except DeviceLost as lost:
        return lost.gap


def _sample_gap(nvml: ModuleType, board: Board) -> Gap | None:
    # The driver may say yes and then refuse the sample: fractional vGPUs, containers.
    try:
        sample = nvml.nvmlGpmSampleAlloc()
        try:
            nvml.nvmlGpmSampleGet(board.handle, sample)
        finally:
            nvml.nvmlGpmSampleFree(sample)
    except nvml.NVMLError as error:
        return gap_of(nvml, error.value, "nvmlGpmSampleGet")
    return None


def _max_sm_clock_hz(nvml: ModuleType, board: Board) -> float | None:
    try:
        return float(nvml.nvmlDeviceGetMaxClockInfo(board.handle, SM_CLOCK) * 1e6)
    except nvml.NVMLError:
        return None
