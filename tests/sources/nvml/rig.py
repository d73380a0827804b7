"""The stub library with a clock beside it, and the source on the real bindings above them."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from otel_ofu.files.gpus import BusGpu
from otel_ofu.model import Reading
from otel_ofu.model.clock import VirtualClock
from otel_ofu.sources.nvml import NvmlSource, SessionOptions
from otel_ofu.sources.nvml.clock_sampler import SHORT_S, ClockSampler
from tests.waiting import HANGS_S, wait_until

LOST, NO_PERMISSION, NOT_SUPPORTED, TIMEOUT, UNKNOWN = 15, 4, 3, 10, 999
INVALID_ARGUMENT, UNINITIALIZED = 2, 1

EVENT_WAIT_S = 0.02


def build_stub(compiler: str, folder: Path) -> Path:
    library = folder / "libnvidia-ml.so.1"
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden"]
    flags += ["-Wl,-soname,libnvidia-ml.so.1", "-lm", "-lpthread"]
    source = Path(__file__).with_name("stub.c")
    subprocess.run([compiler, str(source), "-o", str(library), *flags], check=True)
    return library


class Stub:
    """The script of the library: what it answers, and what was asked of it."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._library = ctypes.CDLL(self.path)
        self._library.stub_calls.restype = ctypes.c_uint
        self.reset()

    def reset(self) -> None:
        """As before anything was opened."""
        self._library.stub_reset()

    def set(self, **values: float) -> None:
        """Keys with `__` for a dot: `gpu0__gpm__5=43.75`."""
        for key, value in values.items():
            self._library.stub_set(key.replace("__", ".").encode(), ctypes.c_double(value))

    def text(self, **texts: str) -> None:
        for key, text in texts.items():
            self._library.stub_text(key.replace("__", ".").encode(), text.encode())

    def trace(self, gpu: int, rows: Sequence[Sequence[float]], step_s: float) -> None:
        """What a GPU does step by step: MHz, tensor, SM and engine activity."""
        steps = len(rows[0])
        flat = [value for row in rows for value in row]
        array = (ctypes.c_double * len(flat))(*flat)
        self._library.stub_trace(gpu, steps, ctypes.c_double(1e3 * step_s), array)

    def xid(self, gpu: int, code: int) -> None:
        self._library.stub_event(gpu, ctypes.c_ulonglong(8), ctypes.c_ulonglong(code))

    def calls(self, function: str) -> int:
        return int(self._library.stub_calls(function.encode()))

    @property
    def hanging(self) -> int:
        """Calls that hang, of GPUs that are told to."""
        return int(self._library.stub_hanging())

    @property
    def live_samples(self) -> int:
        return int(self._library.stub_live_samples())

    @property
    def misuse(self) -> int:
        return int(self._library.stub_misuse())

    @property
    def references(self) -> int:
        return int(self._library.stub_references())


class SteppedClock(VirtualClock):
    """Reaches a time in several steps without the rounding of their sum."""

    def reach(self, now_s: float, monotonic_s: float) -> None:
        self._now_s, self._monotonic_s = now_s, monotonic_s


class Rig:
    """A source on the stub. `read` lets time pass first, for the agent and the driver alike.

    The clock is sampled on the way, as by the source's own thread; one step costs `step_cpu_s`.
    """

    def __init__(self, stub: Stub, *, short_s: float = SHORT_S, seed: int = 1) -> None:
        self.stub = stub
        self.step_cpu_s = 0.0
        self._cpu_s = 0.0
        self._sampling = short_s, seed
        self.sampler: ClockSampler | None = None
        self.bus: Sequence[BusGpu] = ()
        """GPUs on the PCI bus."""
        self.clock = SteppedClock(1_700_000_000.0)
        self.source: NvmlSource | None = None

    def open(self) -> NvmlSource:
        options = SessionOptions(
            EVENT_WAIT_S,
            self._new_sampler,
            threaded=False,
            on_bus=lambda opened: [gpu for gpu in self.bus if gpu.address not in opened],
            deadline_s=HANGS_S,
            wait=self._wait,
        )
        self.source = NvmlSource(self.stub.path, clock=self.clock, options=options)
        self.source.open()
        return self.source

    def _wait(self, done: threading.Event, _deadline_s: float) -> bool:
        """A deadline ends when the thread that reads hangs, however long that takes."""
        wait_until(lambda: done.is_set() or self._hangs(), "the devices, or one that hangs")
        return done.is_set()

    def _hangs(self) -> bool:
        return 0 < len(reading_threads()) == self.stub.hanging

    def wait(self, seconds: float) -> None:
        begun_s, until_s = self.clock.monotonic_s(), self.clock.monotonic_s() + seconds
        sampler, wall_s = self.sampler, self.clock.now_s()
        while sampler and (due_s := sampler.due_s(self.clock.monotonic_s())) <= until_s:
            due_s = max(due_s, self.clock.monotonic_s())
            self._reach(wall_s + due_s - begun_s, due_s)
            sampler.step(due_s)
        self._reach(wall_s + seconds, until_s)

    def _reach(self, now_s: float, monotonic_s: float) -> None:
        self.clock.reach(now_s, monotonic_s)
        self.stub.set(time_ms=monotonic_s * 1e3)

    def _new_sampler(self, nvml: ModuleType) -> ClockSampler:
        short_s, seed = self._sampling
        self.sampler = ClockSampler(nvml, short_s=short_s, seed=seed, cpu_s=self._cpu)
        return self.sampler

    def _cpu(self) -> float:
        self._cpu_s += self.step_cpu_s
        return self._cpu_s

    def read(self, after_s: float = 10.0) -> dict[str, Reading]:
        self.wait(after_s)
        source = self.source or self.open()
        return {reading.device.uuid: reading for reading in source.read(self.clock.now_s())}

    def gpu(self, index: int = 0, after_s: float = 10.0) -> Reading:
        return self.read(after_s)[uuid(index)]

    def values(self, index: int = 0, after_s: float = 10.0) -> Mapping[str, float]:
        return self.gpu(index, after_s).values

    def close(self) -> None:
        if self.source:
            self.source.close()


def reading_threads() -> list[threading.Thread]:
    """Those that read devices, or are kept by one that hangs."""
    names = ("nvml-read", "nvml-gpu-")
    return [thread for thread in threading.enumerate() if thread.name.startswith(names)]


def uuid(index: int) -> str:
    return f"GPU-00000000-0000-0000-0000-{index:012d}"


def address(index: int) -> str:
    """On the PCI bus."""
    return f"00000000:{0x1B + index:02X}:00.0"


def mig_uuid(gpu: int, gpu_instance: int, compute_instance: int = 0) -> str:
    return f"MIG-00000000-0000-0000-{gpu:04d}-{gpu_instance:04d}{compute_instance:04d}0000"
