"""What a GPU supports, found out by trying.

Enters: a GPU. Leaves: whether it has GPM, and why not; the read that follows does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from otel_ofu.model import Device, Gap, GapReason
from otel_ofu.sources.nvml.client import DeviceLostError, gap_of
from otel_ofu.sources.nvml.devices import GpuBoard
from otel_ofu.sources.nvml.gpm import gpm_refusal


@dataclass(frozen=True, slots=True)
class DeviceSupport:
    """One GPU with its MIG instances. `gpm_problem` is empty when there is none."""

    device: Device
    has_gpm: bool
    gpm_problem: str
    instances: tuple[Device, ...]


def support_of(nvml: ModuleType, board: GpuBoard) -> DeviceSupport:
    """Takes one GPM sample and gives it back. Raises `SourceError` when the session is over."""
    gap = _gpm_gap(nvml, board)
    return DeviceSupport(
        device=board.device,
        has_gpm=gap is None,
        gpm_problem=gap.detail if gap else "",
        instances=tuple(instance.device for instance in board.instances),
    )


def _gpm_gap(nvml: ModuleType, board: GpuBoard) -> Gap | None:
    try:
        refusal = gpm_refusal(nvml, board.handle, board.device.driver_version)
        return Gap(GapReason.NOT_SUPPORTED, refusal) if refusal else _sample_gap(nvml, board)
    except DeviceLostError as lost:
        return lost.gap


def _sample_gap(nvml: ModuleType, board: GpuBoard) -> Gap | None:
    # The driver may report support and then refuse the sample: fractional vGPUs, containers.
    try:
        sample = nvml.nvmlGpmSampleAlloc()
        try:
            nvml.nvmlGpmSampleGet(board.handle, sample)
        finally:
            nvml.nvmlGpmSampleFree(sample)
    except nvml.NVMLError as error:
        return gap_of(nvml, error.value, "nvmlGpmSampleGet")
    return None
