"""The driver's library: loaded and initialised, and what its return codes mean.

Enters: a path, or nothing for the usual paths; a code. Leaves: the `pynvml` module, initialised, or
one sentence why not; the `Gap` of a failed call, or `DeviceLostError` / `SourceError`.
"""

from __future__ import annotations

import ctypes
import logging
import math
from types import ModuleType

from otel_ofu.model import Gap, GapReason
from otel_ofu.model.errors import SourceError, SourceUnavailable

_log = logging.getLogger(__name__)

# WSL and the container runtimes of some clouds do not put the library on the linker's path.
USUAL_PATHS = (
    "libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
)

# NVML code at initialisation -> what is wrong, what mends it.
_INIT_FAILURES = {
    4: (
        "no permission to open the NVIDIA driver (/dev/nvidiactl)",
        "run as root, or give this user read and write access to /dev/nvidia*",
    ),
    9: (
        "the NVIDIA kernel driver is not loaded",
        "load it: sudo modprobe nvidia; see dmesg for why it does not load",
    ),
    18: (
        "the NVIDIA library and the kernel driver are of different versions",
        "reboot, or unload and load the nvidia kernel modules after the driver update",
    ),
}
_DIFFERENT = ("the NVIDIA driver did not start", "see nvidia-smi and dmesg")


def open_library(path: str = "") -> ModuleType:
    """`pynvml`, loaded from `path` (empty: the usual paths) and initialised.

    Every call needs one `close_library`. Raises `SourceUnavailable`.
    """
    nvml = _bindings(_load(path))
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        message, remedy = _INIT_FAILURES.get(error.value, _DIFFERENT)
        raise SourceUnavailable(f"{message}: {error} ({error.value})", remedy) from None
    return nvml


def close_library(nvml: ModuleType) -> None:
    """Ends what `open_library` began; a driver that is gone already is no error."""
    try:
        nvml.nvmlShutdown()
    except nvml.NVMLError as error:
        _log.info("nvmlShutdown: %s (%d)", error, error.value)


def driver_version(nvml: ModuleType) -> str:
    """E.g. `595.45.04`; empty if the driver has none."""
    try:
        return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError as error:
        _log.info("nvmlSystemGetDriverVersion: %s (%d)", error, error.value)
        return ""


def _load(path: str) -> ctypes.CDLL:
    failures = []
    for candidate in (path,) if path else USUAL_PATHS:
        try:
            return ctypes.CDLL(candidate)
        except OSError as error:
            failures.append(str(error))
    if path:
        raise SourceUnavailable(
            f"cannot load the NVIDIA driver library {path}: {failures[0]}",
            "give the path of libnvidia-ml.so.1, or leave the setting empty",
        )
    raise SourceUnavailable(
        f"no NVIDIA driver library on this machine: {failures[0]}",
        "install the NVIDIA driver (in a container: run it with the NVIDIA container toolkit), "
        "or give the path of libnvidia-ml.so.1 in the settings of the nvml source",
    )


def _bindings(library: ctypes.CDLL) -> ModuleType:
    import pynvml  # noqa: PLC0415 - vendor library, only when it is needed

    # The bindings load a fixed name and keep function pointers by name; both must follow
    # the library that is requested. Equal handles mean that it is loaded already.
    before = pynvml.nvmlLib
    if before is None or before._handle != library._handle:  # noqa: SLF001 - no public name
        pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - no public name
        pynvml.nvmlLib = library
    nvml: ModuleType = pynvml
    return nvml


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

_FIRST_PAUSE_S = 30.0  # starting value
_LONGEST_PAUSE_S = 600.0  # starting value
_PATIENCE = 3  # starting value: failures in a row before the first pause


class DeviceLostError(Exception):
    """One GPU does not answer any more; the others may. `gap` stands for all that it gave."""

    def __init__(self, gap: Gap) -> None:
        super().__init__(gap.detail)
        self.gap = gap


def error_text(nvml: ModuleType, code: int) -> str:
    """The driver's text for a code, e.g. `Not Supported (3)`."""
    return f"{nvml.NVMLError(code)} ({code})"


def gap_of(nvml: ModuleType, code: int, function: str) -> Gap:
    """The gap of a failed call. Raises `DeviceLostError`, or `SourceError` when all is over."""
    detail = f"{function}: {error_text(nvml, code)}"
    if code in SESSION_OVER:
        raise SourceError(f"NVML has to be opened again: {detail}")
    if code in LOST:
        raise DeviceLostError(Gap(GapReason.FAILED, detail))
    reason = REASONS.get(code, GapReason.FAILED)
    if reason is GapReason.NOT_PERMITTED:
        detail = f"{detail}; {PERMISSION_HINT}"
    return Gap(reason, detail)


class FieldRefusedError(Exception):
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
