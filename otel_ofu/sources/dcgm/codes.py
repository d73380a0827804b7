"""DCGM's numbers explained: return codes, and values that mean "no value".

Enters a code or a raw value; leaves the reason, with a sentence and a remedy for people.

Source: dcgm_structs.h (DCGM 3.3 to 4.6); codes are stable, names are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from otel_ofu.model import GapReason

BAD_PARAMETER = -1
NOT_SUPPORTED = -6
TIMEOUT = -11
VERSION_MISMATCH = -12
NO_DATA = -14
FUNCTION_NOT_FOUND = -20
CONNECTION_LOST = -21
LIMIT_REACHED = -24
LIBRARY_NOT_FOUND = -25
MODULE_NOT_LOADED = -33
MULTI_PASS = -38
PAUSED = -54
DRIVER_NOT_LOADED = -56

VERSION_CODES = frozenset({VERSION_MISMATCH, FUNCTION_NOT_FOUND})
"""DcgmClient and engine do not fit; trying again at once changes nothing."""


def install(package: str) -> str:
    """The commands that install a package of DCGM 4 on both families of distributions."""
    return (
        f"Debian/Ubuntu: sudo apt-get install {package}; RHEL: sudo dnf install {package} "
        "(both from NVIDIA's CUDA repository)"
    )


INSTALL_CLIENT = install("datacenter-gpu-manager-4-core")
_THEN_RESTART = "; then sudo systemctl restart nvidia-dcgm"
INSTALL_PROFILING = install("datacenter-gpu-manager-4-proprietary") + _THEN_RESTART
REINSTALL_3 = (
    "the module is part of DCGM 3, so this installation is not complete: Debian/Ubuntu: sudo "
    "apt-get install --reinstall datacenter-gpu-manager; RHEL: sudo dnf reinstall "
    "datacenter-gpu-manager" + _THEN_RESTART
)
INSTALL_DRIVER = (
    install("cuda-drivers")
    + "; reboot or sudo modprobe nvidia; then sudo systemctl restart nvidia-dcgm"
)
START_ENGINE = "sudo systemctl enable --now nvidia-dcgm (Debian/Ubuntu and RHEL)"
RESTART_ENGINE = "sudo systemctl restart nvidia-dcgm (Debian/Ubuntu and RHEL)"
ALLOW_PROFILING = (
    "run the host engine as root or with CAP_SYS_ADMIN, or put "
    "'options nvidia NVreg_RestrictProfilingToAdminUsers=0' into /etc/modprobe.d/nvidia.conf, "
    "run sudo update-initramfs -u (Debian/Ubuntu) or sudo dracut -f (RHEL), and reboot; "
    "in a container add --cap-add SYS_ADMIN or --privileged"
)
MATCH_VERSIONS = (
    "bring client and host engine to one version: Debian/Ubuntu: sudo apt-get install "
    "--only-upgrade datacenter-gpu-manager-4-core; RHEL: sudo dnf upgrade "
    "datacenter-gpu-manager-4-core; then sudo systemctl restart nvidia-dcgm"
)


_LAST_WITH_MODULE = 3
"""Of DCGM 4 the profiling module is a package of its own."""

FAILURES = {
    TIMEOUT: "timeout",
    CONNECTION_LOST: "not_reachable",
    LIMIT_REACHED: "no_free_group",
    LIBRARY_NOT_FOUND: "no_client",
    DRIVER_NOT_LOADED: "no_driver",
    VERSION_MISMATCH: "version_mismatch",
    FUNCTION_NOT_FOUND: "version_mismatch",
}
"""Words to count by, of what an engine fails with as a whole; `failed` for the rest."""


@dataclass(frozen=True, slots=True)
class DcgmTrouble:
    """A state explained: `reason` for the gap, `detail` for people, `remedy` if there is one."""

    reason: GapReason
    detail: str
    remedy: str = ""


_TROUBLES = {
    NOT_SUPPORTED: DcgmTrouble(GapReason.NOT_SUPPORTED, "not supported on this device"),
    TIMEOUT: DcgmTrouble(
        GapReason.FAILED, "the host engine did not answer in time", RESTART_ENGINE
    ),
    VERSION_MISMATCH: DcgmTrouble(
        GapReason.FAILED, "client and host engine have different versions", MATCH_VERSIONS
    ),
    -13: DcgmTrouble(
        GapReason.NOT_SUPPORTED, "this engine does not support the field", MATCH_VERSIONS
    ),
    NO_DATA: DcgmTrouble(GapReason.NOT_READY, "watched, but nothing was recorded yet"),
    -15: DcgmTrouble(GapReason.STALE, "the engine calls its last sample stale"),
    -16: DcgmTrouble(GapReason.FAILED, "the engine does not watch the field"),
    -17: DcgmTrouble(GapReason.NOT_PERMITTED, "the engine may not read this", ALLOW_PROFILING),
    -18: DcgmTrouble(GapReason.FAILED, "the GPU is lost", "drain the node and reset the GPU"),
    -19: DcgmTrouble(GapReason.FAILED, "the GPU needs a reset", "drain the node and reset the GPU"),
    FUNCTION_NOT_FOUND: DcgmTrouble(
        GapReason.FAILED, "one of client and host engine is too old for the other", MATCH_VERSIONS
    ),
    CONNECTION_LOST: DcgmTrouble(
        GapReason.FAILED, "the connection to the host engine is gone", START_ENGINE
    ),
    -22: DcgmTrouble(GapReason.NOT_SUPPORTED, "DCGM does not support this GPU"),
    LIMIT_REACHED: DcgmTrouble(
        GapReason.FAILED,
        "the host engine has no free group: 64 groups and 64 field groups serve all its clients",
        "see dcgmi group --list and dcgmi fieldgroup --list, stop the client that leaks them or "
        + RESTART_ENGINE,
    ),
    -29: DcgmTrouble(
        GapReason.NOT_PERMITTED,
        "profiling is restricted to administrators, and the host engine does not run as one",
        ALLOW_PROFILING,
    ),
    -32: DcgmTrouble(GapReason.NOT_SUPPORTED, "the field is not for this call"),
    MODULE_NOT_LOADED: DcgmTrouble(
        GapReason.NOT_SUPPORTED, "the engine has no profiling module loaded", INSTALL_PROFILING
    ),
    -34: DcgmTrouble(
        GapReason.FAILED,
        "another profiler holds the GPU's counters (Nsight, CUPTI or a second DCGM)",
        "end the other profiler; see sudo lsof /dev/nvidia*",
    ),
    -35: DcgmTrouble(GapReason.NOT_SUPPORTED, "no GPU that DCGM supports"),
    -36: DcgmTrouble(
        GapReason.NOT_SUPPORTED, "no profiling counters on this GPU with this driver or as a vGPU"
    ),
    -37: DcgmTrouble(
        GapReason.FAILED, "the profiling module failed and does not recover", RESTART_ENGINE
    ),
    MULTI_PASS: DcgmTrouble(
        GapReason.NOT_SUPPORTED, "too many counters for this GPU to take together"
    ),
    PAUSED: DcgmTrouble(
        GapReason.NOT_READY, "profiling is paused in the engine", "dcgmi profile --resume"
    ),
    DRIVER_NOT_LOADED: DcgmTrouble(
        GapReason.FAILED, "the host engine found no NVIDIA driver", INSTALL_DRIVER
    ),
    -57: DcgmTrouble(GapReason.FAILED, "the NVIDIA driver hangs", "see the kernel's log (dmesg)"),
    -67: DcgmTrouble(
        GapReason.FAILED, "the GPUs are detached from the engine", "dcgmi set --attach"
    ),
}


def trouble(code: int, detail: str = "", engine_major: int | None = None) -> DcgmTrouble:
    """What a code means; unknown codes keep the number and DCGM's own text.

    The remedy is that for an engine of `engine_major`, where it matters.
    """
    known = _TROUBLES.get(code)
    if known is not None and code == MODULE_NOT_LOADED and engine_major == _LAST_WITH_MODULE:
        return DcgmTrouble(known.reason, known.detail, REINSTALL_3)
    if known is not None:
        return known
    return DcgmTrouble(GapReason.FAILED, f"DCGM error {code}" + (f": {detail}" if detail else ""))


# Source: dcgm_fields.h and dcgmvalue.py, the first blank of each type; the status of a blank is 0.
_INT32 = 0x7FFFFFF0
_INT64 = 0x7FFFFFFFFFFFFFF0
_DOUBLE = 2.0**47
FIRST_BLANK = _INT32
"""No number below it is a blank of any type."""


class BlankKind(IntEnum):
    """What the blank means; its number is the distance from the type's first blank."""

    PLAIN = 0
    NOT_FOUND = 1
    NOT_SUPPORTED = 2
    NOT_PERMITTED = 3


_TEXTS = {
    "<<<NULL>>>": BlankKind.PLAIN,
    "<<<NOT_FOUND>>>": BlankKind.NOT_FOUND,
    "<<<NOT_SUPPORTED>>>": BlankKind.NOT_SUPPORTED,
    "<<<NOT_PERM>>>": BlankKind.NOT_PERMITTED,
}


def blank_reason(value: float | str | None) -> BlankKind | None:
    """The blank that a value is; None for a value. NaN and infinities are plain blanks.

    A 32-bit blank counts in a 64-bit field too: some drivers' values arrive unconverted.
    """
    match value:
        case None:
            return BlankKind.PLAIN
        case str():
            return _blank_text(value)
        case int():
            return _offset(value - _INT64) if value >= _INT64 else _exact(value - _INT32)
        case _:
            if not math.isfinite(value):
                return BlankKind.PLAIN
            return _offset(int(value - _DOUBLE)) if value >= _DOUBLE else None


def _blank_text(text: str) -> BlankKind | None:
    if not text.startswith("<<<") or ">>>" not in text:
        return None
    return _TEXTS.get(text, BlankKind.PLAIN)


def _offset(distance: int) -> BlankKind:
    return _exact(distance) or BlankKind.PLAIN


def _exact(distance: int) -> BlankKind | None:
    return BlankKind(distance) if 0 <= distance <= max(BlankKind) else None
