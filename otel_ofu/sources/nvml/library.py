"""The driver's library: found, loaded and initialised, or one sentence that says why not.

Enters: a path, or nothing for the usual places. Leaves: the `pynvml` module, initialised.
"""

from __future__ import annotations

import ctypes
import logging
from types import ModuleType

from otel_ofu.model.errors import SourceUnavailable

_log = logging.getLogger(__name__)

# WSL and the container runtimes of some clouds do not put the library on the linker's path.
USUAL_PLACES = (
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
        "load it: sudo modprobe nvidia; dmesg says why it does not load",
    ),
    18: (
        "the NVIDIA library and the kernel driver are of different versions",
        "reboot, or unload and load the nvidia kernel modules after the driver update",
    ),
}
_DIFFERENT = ("the NVIDIA driver did not start", "see what nvidia-smi and dmesg say")


def open_library(path: str = "") -> ModuleType:
    """`pynvml`, loaded from `path` (empty: the usual places) and initialised.

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
    """E.g. `595.45.04`; empty if the driver does not say."""
    try:
        return str(nvml.nvmlSystemGetDriverVersion())
    except nvml.NVMLError as error:
        _log.info("nvmlSystemGetDriverVersion: %s (%d)", error, error.value)
        return ""


def _load(path: str) -> ctypes.CDLL:
    failures = []
    for place in (path,) if path else USUAL_PLACES:
        try:
            return ctypes.CDLL(place)
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
    # the library that is asked for. Equal handles mean that it is loaded already.
    before = pynvml.nvmlLib
    if before is None or before._handle != library._handle:  # noqa: SLF001 - no public name
        pynvml._nvmlGetFunctionPointer_cache.clear()  # noqa: SLF001 - no public name
        pynvml.nvmlLib = library
    nvml: ModuleType = pynvml
    return nvml
