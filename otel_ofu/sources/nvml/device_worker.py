"""Jobs for devices, one after the other in one thread; a device that gives no answer keeps it.

Enters: a job for each device, by NVML index. Leaves: what each gave, or since when it gives no
answer.

When a job takes longer than its deadline, its thread is left to that device, and a new one goes on
with the rest. As long as the call hangs, the thread bears the device in its name, and no other
thread of this process enters that device: so at most one thread hangs for a device, whoever began
the call, and a device that answers again is free once its thread has ended.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from otel_ofu.model.clock import Clock

DEADLINE_S = 0.5
"""A read is some 40 calls of up to 1.5 ms each. A device is given up after one to two deadlines,
and each further one in the same round after half as long. Starting value."""
LEAST_S = 0.1
OPEN_S = 3.0
"""The same while devices are opened: without persistence mode the driver initialises each of them.
Starting value."""
_JOIN_S = 1.0
_HUNG = "nvml-gpu-"

T = TypeVar("T")
Wait = Callable[[threading.Event, float], bool]
"""Waits for an event for at most so many seconds; whether it came."""


def hung_devices() -> set[int]:
    """The devices that keep a thread of this process, by NVML index."""
    names = [thread.name for thread in threading.enumerate()]
    return {int(name.removeprefix(_HUNG)) for name in names if name.startswith(_HUNG)}


def leave_to(thread: threading.Thread, device: int) -> None:
    """The thread hangs in a call of this device."""
    thread.name = f"{_HUNG}{device}"


@dataclass(frozen=True, slots=True)
class DeviceResults(Generic[T]):
    """What the devices gave, and for how many seconds the others have given no answer."""

    values: Mapping[int, T]
    silent_s: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class DeviceLock:
    """Held by whoever calls the driver for this device."""

    device: int
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, timeout_s: float = 0.0) -> bool:
        """False while another thread is inside, or hangs there."""
        return self.lock.acquire(timeout=timeout_s)

    def give_back(self) -> None:
        self.lock.release()


@dataclass(slots=True)
class _Round(Generic[T]):
    """`running` is the device whose job runs, `begun` how many jobs have begun."""

    jobs: deque[tuple[DeviceLock, Callable[[], T]]]
    deadline_s: float
    values: dict[int, T] = field(default_factory=dict)
    error: Exception | None = None
    running: int | None = None
    begun: int = 0
    done: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def work(self) -> bool:
        """Does all that is left; False where this thread was left to a device."""
        while (taken := self._next()) is not None:
            lock, job = taken
            values, error = self._run(lock, job)
            with self.lock:
                if self.running != lock.device:
                    return False
                self.values.update(values)
                self.error = self.error or error
        return True

    def leave(self, begun: int) -> int | None:
        """The device whose job has run since that many had begun; it is given up."""
        with self.lock:
            if self.begun != begun:
                return None
            left, self.running = self.running, None
            return left

    def _next(self) -> tuple[DeviceLock, Callable[[], T]] | None:
        with self.lock:
            if not self.jobs:
                self.running = None
                self.done.set()
                return None
            lock, job = self.jobs.popleft()
            self.running = lock.device
            self.begun += 1
            return lock, job

    def _run(
        self, lock: DeviceLock, job: Callable[[], T]
    ) -> tuple[Mapping[int, T], Exception | None]:
        """Nothing where another thread hangs inside the device."""
        if not lock.take(self.deadline_s):
            return {}, None
        try:
            return {lock.device: job()}, None
        except Exception as error:  # noqa: BLE001 - raised again in the thread that waits
            return {}, error
        finally:
            lock.give_back()


class DeviceWorker:
    """Belongs to one thread, which waits while another one works."""

    def __init__(
        self, clock: Clock, deadline_s: float = DEADLINE_S, wait: Wait = threading.Event.wait
    ) -> None:
        self._clock = clock
        self._deadline_s = deadline_s
        self._wait = wait
        self._locks: dict[int, DeviceLock] = {}
        self._rounds: queue.SimpleQueue[_Round[Any] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._left: list[threading.Thread] = []
        self._silent_since_s: dict[int, float] = {}

    def lock(self, device: int) -> DeviceLock:
        """For calls of this device from other threads."""
        return self._locks.setdefault(device, DeviceLock(device))

    def run(
        self, jobs: Mapping[int, Callable[[], T]], deadline_s: float | None = None
    ) -> DeviceResults[T]:
        """Each job in turn, but for devices that still keep a thread. Raises what a job raised."""
        now_s, hung = self._clock.monotonic_s(), hung_devices()
        free = deque((self.lock(i), job) for i, job in jobs.items() if i not in hung)
        round_ = _Round(free, deadline_s or self._deadline_s)
        if free:
            self._start(round_)
            self._await(round_)
        if round_.error is not None:
            raise round_.error
        return DeviceResults(round_.values, self._silent(jobs, round_.values, now_s))

    def close(self) -> bool:
        """Whether no thread of it is left: False while the driver keeps one."""
        self._rounds.put(None)
        if self._thread is not None:
            self._thread.join(_JOIN_S)
        threads = [*self._left, *([self._thread] if self._thread else [])]
        self._thread = None
        return not any(thread.is_alive() for thread in threads)

    def _start(self, round_: _Round[T]) -> None:
        if self._thread is None:
            self._thread = self._new_thread(round_)
        else:
            self._rounds.put(round_)

    def _new_thread(self, round_: _Round[T]) -> threading.Thread:
        thread = threading.Thread(target=self._work, args=(round_,), name="nvml-read", daemon=True)
        thread.start()
        return thread

    def _work(self, round_: _Round[Any] | None) -> None:
        while round_ is not None and round_.work():
            round_ = self._rounds.get()

    def _await(self, round_: _Round[T]) -> None:
        """A device is given up when nothing else has begun between two ends of a deadline."""
        deadline_s, begun = round_.deadline_s, 0
        while not self._wait(round_.done, deadline_s):
            left = round_.leave(begun)
            if left is not None and self._thread is not None:
                leave_to(self._thread, left)
                self._left = [*filter(threading.Thread.is_alive, self._left), self._thread]
                self._thread = self._new_thread(round_)
                deadline_s = max(deadline_s / 2, min(LEAST_S, round_.deadline_s))
            begun = round_.begun

    def _silent(
        self, jobs: Mapping[int, object], values: Mapping[int, object], now_s: float
    ) -> dict[int, float]:
        """Those that gave nothing, by the time since they gave nothing for the first time."""
        end_s = self._clock.monotonic_s()
        silent: dict[int, float] = {}
        for device in jobs:
            if device in values:
                self._silent_since_s.pop(device, None)
            else:
                silent[device] = end_s - self._silent_since_s.setdefault(device, now_s)
        return silent


def no_answer(seconds: float) -> str:
    """For people; since when is not known where another session of this process began the call."""
    if seconds < _LEAST_S:
        return "no answer"
    return f"no answer for {seconds:.0f} s" if seconds >= 1 else f"no answer for {seconds:.1f} s"


_LEAST_S = 0.05  # a rounded 0.0 s says nothing
