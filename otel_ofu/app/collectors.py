"""What is added to a round beside the GPUs' counters: flags of their processes, the node's load.

Enters: the observations of a round. Leaves: more observations, for the history and for export.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from otel_ofu.catalog.registry import load_registry
from otel_ofu.evidence.flags import FlagCatalogue, FlagScanner
from otel_ofu.evidence.host import HostReader
from otel_ofu.evidence.settings import EvidenceSettings, FlagSettings
from otel_ofu.model import Attribute, Entity, Observation
from otel_ofu.model.clock import Clock
from otel_ofu.sources.nvml import GpuProcess

Processes = Callable[[], Sequence[GpuProcess]]


@dataclass(frozen=True, slots=True)
class CollectedValues:
    """More of a round; `stored` goes into the history, `exported` to the exporters."""

    stored: Sequence[Observation] = ()
    exported: Sequence[Observation] = ()


class Collector(Protocol):
    """Adds to a round. Never raises, and takes little time."""

    def collect(self, observations: Sequence[Observation], now_s: float) -> CollectedValues: ...


@dataclass(slots=True)
class GpuProcesses:
    """The processes on the GPUs as of the last query, shared by all who need them."""

    query: Processes
    last: Sequence[GpuProcess] = field(default_factory=tuple)

    def processes(self) -> Sequence[GpuProcess]:
        """Queries the driver. Raises SourceError."""
        self.last = self.query()
        return self.last

    def pids(self) -> Collection[int]:
        return {process.pid for process in self.last}


class FlagCollector:
    """Flags of the processes on each GPU, as metrics of that GPU."""

    def __init__(
        self,
        settings: FlagSettings,
        flags: FlagCatalogue,
        gpu_processes: GpuProcesses,
        clock: Clock,
    ) -> None:
        self._architectures: dict[str, str] = {}
        self._scanner = FlagScanner(
            flags,
            clock=clock,
            processes=gpu_processes.processes,
            architectures=lambda: self._architectures,
            settings=settings,
        )

    def collect(self, observations: Sequence[Observation], now_s: float) -> CollectedValues:
        entities = _gpus(observations)
        if not entities:
            return CollectedValues()
        self._architectures = {
            uuid: str(entity.attributes.get("ofu.gpu.architecture", ""))
            for uuid, entity in entities.items()
        }
        scan, window = self._scanner.scan(now_s), observations[0].window
        return CollectedValues(
            scan.observations(entities, window),
            scan.observations(entities, window, all_flags=False),
        )

    def counts(self) -> Mapping[str, int]:
        """What the scans could not do, by kind."""
        return self._scanner.report().counts


class HostCollector:
    """The load of this node, as metrics of the node."""

    def __init__(self, host: str, gpu_processes: GpuProcesses, clock: Clock) -> None:
        self._host = host
        self._read = 0
        self._reader = HostReader(
            clock=clock, host=host, pids=gpu_processes.pids, gpus=lambda: self._read
        )

    def collect(self, observations: Sequence[Observation], now_s: float) -> CollectedValues:
        self._read = _gpus_read(observations, self._host)
        seen = [self._reader.read(now_s)]
        return CollectedValues(seen, seen)


def _gpus_read(observations: Sequence[Observation], host: str) -> int:
    """Whole GPUs of this host that gave a value; a MIG instance speaks for the GPU it is of."""
    registry = load_registry()
    read: set[Attribute] = set()
    for observation in observations:
        attributes = observation.entity.attributes
        if observation.entity.kind != "gpu" or attributes.get("host.name") != host:
            continue
        if any(not registry.metric(key).derived for key in observation.values):
            read.add(attributes.get("hw.parent") or attributes["hw.id"])
    return len(read)


def collectors(
    evidence: EvidenceSettings,
    flags: FlagCatalogue,
    host: str,
    gpu_processes: GpuProcesses,
    clock: Clock,
) -> list[Collector]:
    """What the configuration asks for."""
    found: list[Collector] = []
    if evidence.flags.enabled:
        found.append(FlagCollector(evidence.flags, flags, gpu_processes, clock))
    if evidence.host.enabled:
        found.append(HostCollector(host, gpu_processes, clock))
    return found


def _gpus(observations: Sequence[Observation]) -> Mapping[str, Entity]:
    """One entity for each GPU, by UUID; of several owners the first."""
    found: dict[str, Entity] = {}
    for observation in observations:
        if observation.entity.kind == "gpu":
            uuid = str(observation.entity.attributes.get("hw.id", ""))
            found.setdefault(uuid, observation.entity)
    return found
