"""What an NVML return code means: a gap, a lost device, or an end of the whole session.

Enters: a code and the driver's words for it. Leaves: a `Gap`, or `DeviceLost` / `SourceError`.
"""

from __future__ import annotations

import math
from types import ModuleType

from otel_ofu.model import Gap, GapReason
from otel_ofu.model.errors import SourceError

PERMISSION_HINT = (
    "run the agent as root or with CAP_SYS_ADMIN (in a container: privileged), or load the driver "
    "with NVreg_RestrictProfilingToAdminUsers=0 "
    "(see RmProfilingAdminOnly in /proc/driver/nvidia/params)"
)

# Source: enum nvmlReturn_t of nvml.h; the test holds them equal to the constants of nvidia-ml-py.
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NOT_FOUND = 6
TIMEOUT = 10
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15

# The library must be initialised again: the driver was unloaded, reloaded or replaced.
SESSION_OVER = {1: "UNINITIALIZED", 9: "DRIVER_NOT_LOADED", 18: "LIB_RM_VERSION_MISMATCH"}
LOST = {GPU_IS_LOST: "GPU_IS_LOST", 16: "RESET_REQUIRED", 28: "GPU_NOT_FOUND"}
REASONS = {
    NOT_SUPPORTED: GapReason.NOT_SUPPORTED,
    4: GapReason.NOT_PERMITTED,
    FUNCTION_NOT_FOUND: GapReason.NOT_SUPPORTED,
    21: GapReason.NOT_READY,  # NO_DATA
    22: GapReason.NOT_SUPPORTED,  # VGPU_ECC_NOT_SUPPORTED
    25: GapReason.NOT_SUPPORTED,  # ARGUMENT_VERSION_MISMATCH: this driver lacks the struct
    26: GapReason.NOT_SUPPORTED,  # DEPRECATED
    27: GapReason.NOT_READY,
}

_FIRST_PAUSE_S = 30.0
_LONGEST_PAUSE_S = 600.0
_PATIENCE = 3


class DeviceLost(Exception):  # noqa: N818 - a state of one GPU; never leaves this package
    """One GPU does not answer any more; the others may. `gap` stands for all that it gave."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(gap.detail)
        self.gap = gap


def words(nvml: ModuleType, code: int) -> str:
    """The driver's words for a code, e.g. `Not Supported (3)`."""
    return f"{nvml.NVMLError(code)} ({code})"


def gap_of(nvml: ModuleType, code: int, function: str) -> Gap:
    """The gap that a failed call leaves. Raises `DeviceLost`, or `SourceError` when all is over."""
    detail = f"{function}: {words(nvml, code)}"
    if code in SESSION_OVER:
        raise SourceError(f"NVML has to be opened again: {detail}")
    if code in LOST:
        raise DeviceLost(Gap(GapReason.FAILED, detail))
    reason = REASONS.get(code, GapReason.FAILED)
    if reason is GapReason.NOT_PERMITTED:
        detail = f"{detail}; {PERMISSION_HINT}"
    return Gap(reason, detail)


class FieldRefused(Exception):  # noqa: N818 - like the errors of the bindings, which have `value`
    """A field of a call that succeeded as a whole has an error code of its own."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value


class Retry:
    """When a call that failed is made again (monotonic seconds).

    Not supported: after `unsupported_pause_s`. Not permitted: after 30 s, doubling up to 10 min,
    for containers lose and regain the right. Failed: at the next read, from the third time on
    like not permitted. Not ready: at the next read.
    """

    def __init__(self, unsupported_pause_s: float = math.inf) -> None:
        self._unsupported_pause_s = unsupported_pause_s
        self._pause_s = _FIRST_PAUSE_S
        self._until_s = -math.inf
        self._failures = 0
        self._gap: Gap | None = None

    def standing(self, monotonic_s: float) -> Gap | None:
        """The gap that still holds without another call, or None when the call is due."""
        return self._gap if self._gap and monotonic_s < self._until_s else None

    def failed(self, gap: Gap, monotonic_s: float) -> None:
        self._gap = gap
        self._failures += 1
        self._until_s = monotonic_s + self._pause(gap.reason)

    def succeeded(self) -> None:
        self._gap = None
        self._failures = 0
        self._pause_s = _FIRST_PAUSE_S

    def _pause(self, reason: GapReason) -> float:
        if reason is GapReason.NOT_SUPPORTED:
            return self._unsupported_pause_s
        patient = reason is GapReason.FAILED and self._failures < _PATIENCE
        if patient or reason is GapReason.NOT_READY:
            return 0.0
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, _LONGEST_PAUSE_S)
        return pause_s
