"""What is added to a round beside the GPUs' counters: flags of their processes, the node's load.

Enters: the observations of a round. Leaves: more observations, for the history and for export.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from otel_ofu.config import Config
from otel_ofu.evidence import FlagScanner, HostReader, load_flags
from otel_ofu.model import Entity, Observation
from otel_ofu.model.clock import Clock
from otel_ofu.sources.nvml import GpuProcess

Watch = Callable[[str, Callable[[], Mapping[str, int]]], None]
Processes = Callable[[], Sequence[GpuProcess]]


@dataclass(frozen=True, slots=True)
class Added:
    """More of a round; `stored` goes into the history, `exported` to the exporters."""

    stored: Sequence[Observation] = ()
    exported: Sequence[Observation] = ()


class Addition(Protocol):
    """Adds to a round. Never raises, and takes little time."""

    def add(self, observations: Sequence[Observation], now_s: float) -> Added: ...


@dataclass(slots=True)
class Processing:
    """The processes on the GPUs as they were asked for last, shared by all who need them."""

    ask: Processes
    last: Sequence[GpuProcess] = field(default_factory=tuple)

    def processes(self) -> Sequence[GpuProcess]:
        """Asks the driver. Raises SourceError."""
        self.last = self.ask()
        return self.last

    def pids(self) -> Collection[int]:
        return {process.pid for process in self.last}


class FlagAddition:
    """Flags of the processes on each GPU, as metrics of that GPU."""

    def __init__(self, config: Config, processing: Processing, clock: Clock) -> None:
        flags = config.evidence.flags
        self._architectures: dict[str, str] = {}
        self._scanner = FlagScanner(
            load_flags(flags.files),
            clock=clock,
            processes=processing.processes,
            architectures=lambda: self._architectures,
            settings=flags,
        )

    def add(self, observations: Sequence[Observation], now_s: float) -> Added:
        entities = _gpus(observations)
        if not entities:
            return Added()
        self._architectures = {
            uuid: str(entity.attributes.get("ofu.gpu.architecture", ""))
            for uuid, entity in entities.items()
        }
        scan, window = self._scanner.scan(now_s), observations[0].window
        return Added(
            scan.observations(entities, window),
            scan.observations(entities, window, all_flags=False),
        )

    def counts(self) -> Mapping[str, int]:
        """What the scans could not do, by kind."""
        return self._scanner.report().counts


class HostAddition:
    """The load of this node, as metrics of the node."""

    def __init__(self, host: str, processing: Processing, clock: Clock) -> None:
        self._reader = HostReader(clock=clock, host=host, pids=processing.pids)

    def add(self, observations: Sequence[Observation], now_s: float) -> Added:  # noqa: ARG002
        seen = [self._reader.read(now_s)]
        return Added(seen, seen)


def additions(
    config: Config, host: str, processing: Processing, clock: Clock, watch: Watch
) -> list[Addition]:
    """What the config asks for. Raises ConfigError for files of flags with mistakes."""
    found: list[Addition] = []
    if config.evidence.flags.enabled:
        flags = FlagAddition(config, processing, clock)
        watch("flags", flags.counts)
        found.append(flags)
    if config.evidence.host.enabled:
        found.append(HostAddition(host, processing, clock))
    return found


def _gpus(observations: Sequence[Observation]) -> Mapping[str, Entity]:
    """One entity for each GPU, by UUID; of several owners the first."""
    found: dict[str, Entity] = {}
    for observation in observations:
        if observation.entity.kind == "gpu":
            uuid = str(observation.entity.attributes.get("hw.id", ""))
            found.setdefault(uuid, observation.entity)
    return found
