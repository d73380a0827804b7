"""Samples the SM clock between two reads: one random instant in each stratum, by one thread.

Enters: GPUs to watch, and which of them work. Leaves: the spans of each GPU, and what it cost.

Strata are short while a clock moves and long while it stands still or the GPU is idle; all GPUs
that are sampled in short strata are sampled at the same instants, so that a thread wakes up once
for all of them. Short strata grow until the thread's own processor time stays within its budget.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType

from otel_ofu.model import Gap, GapReason
from otel_ofu.model.clock import Clock
from otel_ofu.sources.nvml.client import REASONS, Retry, error_text
from otel_ofu.sources.nvml.clocks import ClockSpan
from otel_ofu.sources.nvml.counters import SM_CLOCK
from otel_ofu.sources.nvml.device_worker import DEADLINE_S, DeviceLock, leave_to
from otel_ofu.sources.nvml.devices import Handle

# Our own starting values, but for the budget, which is a bound.
SHORT_S = 0.2
LONG_S = 1.0
BUDGET = 0.002
"""Of a core: the thread's own processor time."""
MOVED = 0.02
"""Relative: two steps of 15 MHz stand still, a power limit or an idle clock does not."""
HOLD_S = 60.0
"""A clock that moved is sampled in short strata for so long: the next change comes unannounced."""
MOST_SPANS = 4096
"""Kept of a GPU that nobody reads: 13 minutes of short strata."""
_SMOOTHING = 0.1
_JOIN_S = 1.0

ClockSample = tuple[float, int | None]
"""The clock in Hz, and the clock event reasons if they were read."""
Part = tuple[float, float]
"""Of the time: start and end."""


@dataclass(slots=True)
class Stratum:
    """Back-to-back pieces of time, each with one random instant."""

    random: random.Random
    start_s: float = 0.0
    end_s: float = 0.0
    due_s: float = math.inf

    def restart(self, now_s: float, length_s: float) -> None:
        self.start_s = self.end_s = now_s
        self.advance(now_s, length_s)

    def advance(self, now_s: float, length_s: float) -> None:
        """The next one; a thread that wakes up late by more than a whole one leaves it out."""
        skipped = max(0, math.floor((now_s - self.end_s) / length_s))
        self.start_s = self.end_s + skipped * length_s
        self.end_s = self.start_s + length_s
        self.due_s = self.start_s + self.random.random() * length_s

    def advance_if_due(self, now_s: float, length_s: float) -> None:
        if now_s >= self.due_s:
            self.advance(now_s, length_s)

    def part(self, now_s: float) -> Part | None:
        """The stratum that is to be sampled now, if one is."""
        if now_s < self.due_s or now_s > 2 * self.end_s - self.start_s:
            return None
        return self.start_s, self.end_s


@dataclass(slots=True)
class WatchedClock:
    """One GPU. `covered_s`: up to where its spans reach."""

    lock: DeviceLock
    read_mhz: Callable[[], int]
    read_reasons: Callable[[], int] | None
    covered_s: float
    moved_s: float
    busy_s: float
    spans: list[ClockSpan] = field(default_factory=list)
    clock_hz: float | None = None
    retry: Retry = field(default_factory=Retry)

    def is_lively(self, now_s: float) -> bool:
        """Whether its clock moved and its GPU worked of late."""
        return now_s - min(self.moved_s, self.busy_s) < HOLD_S

    def add(
        self, sample: tuple[float, int | None], now_s: float, part: tuple[float, float]
    ) -> None:
        """A sample (clock in Hz, reasons) for a part of the time."""
        clock_hz, reasons = sample
        start_s, end_s = part
        last_hz, self.clock_hz = self.clock_hz, clock_hz
        if last_hz is not None and abs(clock_hz - last_hz) > MOVED * max(clock_hz, last_hz):
            if not self.is_lively(now_s):
                end_s = min(end_s, now_s)  # short strata go on from here
            self.moved_s = now_s
        start_s = max(start_s, self.covered_s)
        if end_s > start_s:
            self.spans.append(ClockSpan(start_s, end_s, clock_hz, reasons))
            self.covered_s = end_s
        del self.spans[:-MOST_SPANS]


@dataclass(frozen=True, slots=True, eq=False)
class SamplerCall:
    """A call that has begun; an object for each, so that a thread knows its own."""

    device: int
    since_s: float


class ClockSampler:
    """Thread-safe; driver calls are made outside its lock. Times are monotonic, in seconds.

    `seed` is for tests; `cpu_s` is the processor time of the thread that calls `step`.
    """

    def __init__(
        self,
        nvml: ModuleType,
        *,
        short_s: float = SHORT_S,
        seed: int | None = None,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self._nvml = nvml
        self._least_s = self.short_s = short_s
        self._cpu_s = cpu_s
        self._lock = threading.Lock()
        self._watched: dict[str, WatchedClock] = {}
        chance = random.Random(seed)  # noqa: S311 - no secret
        self._short, self._long = Stratum(chance), Stratum(chance)
        self._spent_s: float | None = None
        self._cost_s: float | None = None
        self._call: SamplerCall | None = None
        self.total_s = 0.0

    def watch(self, uuid: str, handle: Handle, lock: DeviceLock, now_s: float) -> None:
        """Samples one more GPU from now on, in long strata until its clock moves.

        Only while nobody else is inside it.
        """
        nvml = self._nvml
        reasons = getattr(
            nvml,
            "nvmlDeviceGetCurrentClocksEventReasons",
            getattr(nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None),
        )
        watched = WatchedClock(
            lock,
            partial(nvml.nvmlDeviceGetClockInfo, handle, SM_CLOCK),
            partial(reasons, handle) if reasons else None,
            covered_s=now_s,
            moved_s=-math.inf,
            busy_s=now_s,
        )
        with self._lock:
            self._watched[uuid] = watched

    def forget(self, uuid: str) -> None:
        with self._lock:
            self._watched.pop(uuid, None)

    def works(self, uuid: str, now_s: float) -> None:
        """The GPU was busy in the window that ends now."""
        with self._lock:
            if uuid in self._watched:
                self._watched[uuid].busy_s = now_s

    def restart(self, now_s: float, window_s: float) -> None:
        """Begins strata at the start of a window that is probably `window_s` long."""
        with self._lock:
            if window_s > self.short_s:
                count = math.floor(window_s / self.short_s + 1e-6)
                self._short.restart(now_s, window_s / count)
            else:
                self._short.restart(now_s, self.short_s)
            self._long.restart(now_s, max(LONG_S, self.short_s))

    def take(self, uuid: str, end_s: float) -> list[ClockSpan]:
        """The spans so far; those that end by `end_s` are not given again."""
        with self._lock:
            watched = self._watched.get(uuid)
            if watched is None:
                return []
            spans = watched.spans
            watched.spans = [span for span in spans if span.end_s > end_s]
            return spans

    def due_s(self, now_s: float) -> float:
        """When `step` has something to do; infinite while nothing is watched."""
        with self._lock:
            lively = [watched.is_lively(now_s) for watched in self._watched.values()]
            if not lively:
                return math.inf
            return self._short.due_s if any(lively) else self._long.due_s

    def step(self, now_s: float) -> bool:
        """Samples whatever is due. For one thread; False when that was left to a device."""
        with self._lock:
            self._account()
            due = self._due(now_s)
        return all(self._add_sample(watched, part, now_s) for watched, part in due)

    def _add_sample(self, watched: WatchedClock, part: Part, now_s: float) -> bool:
        """Nothing while another thread is inside the device. False when it hung."""
        if not watched.lock.take():
            return True
        self._call = call = SamplerCall(watched.lock.device, now_s)
        try:
            sample = self._sample(watched, now_s)
        finally:
            watched.lock.give_back()
        with self._lock:
            if self._call is not call:
                return False
            self._call = None
            if sample is not None:
                watched.add(sample, now_s, part)
        return True

    def leave(self, now_s: float, deadline_s: float) -> int | None:
        """The device (NVML index) whose call takes longer; its thread is to sample no more.

        Another thread may call `step` then.
        """
        with self._lock:
            call = self._call
            if call is None or now_s - call.since_s < deadline_s:
                return None
            self._call = self._spent_s = None
            return call.device

    def _due(self, now_s: float) -> list[tuple[WatchedClock, Part]]:
        short, long_ = self._short.part(now_s), self._long.part(now_s)
        due = [
            (watched, part)
            for watched in self._watched.values()
            if (part := short if watched.is_lively(now_s) else long_)
            and watched.retry.standing(now_s) is None
        ]
        self._short.advance_if_due(now_s, self.short_s)
        self._long.advance_if_due(now_s, max(LONG_S, self.short_s))
        return due

    def _sample(self, watched: WatchedClock, now_s: float) -> ClockSample | None:
        nvml = self._nvml
        try:
            clock_hz = watched.read_mhz() * 1e6
            reasons = watched.read_reasons() if watched.read_reasons else None
        except nvml.NVMLError as error:
            reason = REASONS.get(error.value, GapReason.FAILED)
            watched.retry.failed(Gap(reason, error_text(nvml, error.value)), now_s)
            return None
        watched.retry.succeeded()
        return clock_hz, reasons

    def _account(self) -> None:
        """Stretches short strata by what a step costs, from its start to the start of the next."""
        spent_s = self._cpu_s()
        if self._spent_s is not None:
            cost_s = spent_s - self._spent_s
            self.total_s += cost_s
            smooth_s = cost_s if self._cost_s is None else self._cost_s
            self._cost_s = smooth_s + _SMOOTHING * (cost_s - smooth_s)
            self.short_s = max(self._least_s, self._cost_s / BUDGET)
        self._spent_s = spent_s


class SamplingWorker:
    """Runs a sampler until it is closed; a thread that hangs is left to its device."""

    def __init__(self, sampler: ClockSampler, clock: Clock, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._sampler = sampler
        self._clock = clock
        self._stop = threading.Event()
        self._changed = threading.Event()
        self._left: list[threading.Thread] = []
        self._thread = self._new_thread()

    def wake(self) -> None:
        """The strata have begun anew."""
        self._changed.set()

    def go_on(self) -> None:
        """With a new thread, if a device does not answer; to be called now and then."""
        device = self._sampler.leave(self._clock.monotonic_s(), self._deadline_s)
        if device is not None and not self._stop.is_set():
            leave_to(self._thread, device)
            self._left = [*filter(threading.Thread.is_alive, self._left), self._thread]
            self._thread = self._new_thread()

    def close(self) -> bool:
        """Whether its threads have ended: False while the driver keeps one."""
        self._stop.set()
        self._changed.set()
        self._thread.join(_JOIN_S)
        return not any(thread.is_alive() for thread in (*self._left, self._thread))

    def _new_thread(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="nvml-clock", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        while not self._stop.is_set():
            now_s = self._clock.monotonic_s()
            wait_s = self._sampler.due_s(now_s) - now_s
            if wait_s <= 0:
                if not self._sampler.step(now_s):
                    return
            elif self._changed.wait(None if math.isinf(wait_s) else wait_s):
                self._changed.clear()
