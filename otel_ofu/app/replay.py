"""Virtual time: the demo and recordings through the same code as life.

Enters: a source whose time is its own. Leaves: observations in the order of that time, to `emit`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from otel_ofu.app.sampler import Emit, Sampler, SamplerDeriver
from otel_ofu.app.source_reader import ReadResult
from otel_ofu.model.clock import VirtualClock
from otel_ofu.sources import Source
from otel_ofu.sources.recording import RecordingSource


class DirectReader:
    """Reads in the caller's thread and lets errors through: the past does not get better."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def read(self, now_s: float, budget_s: float) -> Sequence[ReadResult]:  # noqa: ARG002 - nothing to wait for
        return [ReadResult(self._source.read(now_s), source=self._source.name)]

    def close(self, deadline_s: float) -> None:  # noqa: ARG002 - nothing to wait for
        self._source.close()


class NoSamplerMeter:
    """Nobody counts the rounds of a replay."""

    def sampled(self, source: str, seconds: float) -> None:
        """A round that went well."""

    def missed(self, source: str, reason: str) -> None:
        """A round that did not."""

    def troubled(self, source: str, target: str, reason: str) -> None:
        """A part that failed."""

    def cost(self, source: str, costs: Mapping[str, float]) -> None:
        """A recording costs nothing."""

    def answered(self, source: str, targets: Mapping[str, bool]) -> None:
        """What answered."""


def demo_instants(start_s: float, interval_s: float) -> Iterator[float]:
    """The ends of the demo's windows, without an end."""
    count = 1
    while True:
        yield start_s + count * interval_s
        count += 1


def recorded_instants(source: RecordingSource) -> Iterator[float]:
    """When each tick of the recording is due. Raises ConfigError at a bad line."""
    while (now_s := source.next_s) is not None:
        yield now_s


class Replay:
    """Plays one source on its own time; `speed` is its seconds per real second, 0: no waiting.

    `clock` is moved to every instant before it is read; `judge` is called after it.
    """

    def __init__(
        self,
        source: Source,
        deriver: SamplerDeriver,
        emit: Emit,
        clock: VirtualClock | None = None,
        judge: Callable[[float], None] = lambda _now_s: None,
    ) -> None:
        self._clock = clock or VirtualClock()
        self._judge = judge
        self._sampler = Sampler(
            DirectReader(source), deriver, emit, budget_s=0.0, meter=NoSamplerMeter()
        )

    def play(self, instants: Iterator[float], speed: float, stopped: threading.Event) -> None:
        """Until the instants end or `stopped` is set."""
        last_s: float | None = None
        for now_s in instants:
            if last_s is not None and speed > 0 and stopped.wait((now_s - last_s) / speed):
                return
            if stopped.is_set():
                return
            self._clock.set(max(now_s, self._clock.now_s()))
            self._sampler.tick(now_s)
            self._judge(now_s)
            last_s = now_s
