"""The node as an entity with metrics.

Enters: /proc, /sys, the instant. Leaves: one `Observation`; what cannot be read is a gap in it,
never an exception.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.catalog.registry import load_registry
from otel_ofu.evidence.host.network import InfiniBand, Network
from otel_ofu.evidence.host.node import (
    Cpu,
    Disks,
    Gpus,
    HostMemory,
    HostPart,
    Pressure,
    RunQueue,
    Values,
)
from otel_ofu.evidence.host.processes import Containers, Ranks
from otel_ofu.files.gpus import GpuPaths
from otel_ofu.files.procfs import AccessDeniedError, ProcessGoneError, ProcFs
from otel_ofu.model import Attribute, Entity, Gap, GapReason, Observation, Window
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.model.log_once import LogOnce

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Where the kernel's file systems are; a test has its own."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    dev: Path = Path("/dev")


NODE = "host.name"


class HostReader:
    """Rates need two reads: the first gives gaps for them. One thread at a time.

    `host`: the name that the GPUs of this node carry as host.name. `pids`: the processes that hold
    a GPU, `gpus`: how many GPUs are read, None where none should be; asked at each read.
    """

    def __init__(
        self,
        paths: HostPaths | None = None,
        clock: Clock | None = None,
        *,
        host: str,
        pids: Callable[[], Collection[int]] = tuple,
        gpus: Callable[[], int | None] = lambda: None,
    ) -> None:
        attributes: dict[str, Attribute] = {NODE: host}
        self._entity = Entity("node", host, attributes)
        self._registry = load_registry()
        found = paths or HostPaths()
        self._parts = (
            *_parts(ProcFs(found.proc), found.sys, clock or SystemClock(), pids),
            Gpus(GpuPaths(found.proc, found.sys, found.dev), gpus),
        )
        self._first_s: float | None = None
        self._last_s: float | None = None
        self._once = LogOnce(log, "load of the node: ")

    def read(self, now_s: float) -> Observation:
        """The load since the last read. `now_s`: the instant in Unix seconds."""
        values: dict[str, float] = {}
        gaps: dict[str, Gap] = {}
        for part in self._parts:
            for key, found in self._read(part):
                if isinstance(found, Gap):
                    gaps[key] = found
                else:
                    values[key] = found
        self._first_s = now_s if self._first_s is None else self._first_s
        start_s = now_s if self._last_s is None or self._last_s > now_s else self._last_s
        self._last_s = now_s
        starts_s = dict.fromkeys(filter(self._is_counter, values), self._first_s)
        return Observation(self._entity, Window(start_s, now_s), values, gaps, starts_s)

    def _read(self, part: HostPart) -> Iterator[tuple[str, float | Gap]]:
        found = self._collect(part)
        for key in part.keys:
            value = found.get(key, Gap(GapReason.NOT_SUPPORTED, "the kernel does not have it"))
            yield (
                key,
                value if isinstance(value, Gap) else self._registry.check(key, value) or value,
            )

    def _collect(self, part: HostPart) -> Values:
        try:
            return part.read()
        except ProcessGoneError as error:
            gap = Gap(GapReason.NOT_SUPPORTED, str(error))
        except AccessDeniedError as error:
            gap = Gap(GapReason.NOT_PERMITTED, str(error))
        except Exception as error:  # noqa: BLE001 - whatever stands in a file, the rest goes on
            gap = Gap(GapReason.FAILED, f"{type(error).__name__}: {error}")
            self._once.log(f"{type(part).__name__}: {gap.detail}")
        return dict.fromkeys(part.keys, gap)

    def _is_counter(self, key: str) -> bool:
        return self._registry.metric(key).kind == "counter"


def _parts(
    procfs: ProcFs, sys_root: Path, clock: Clock, pids: Callable[[], Collection[int]]
) -> Sequence[HostPart]:
    return (
        Cpu(procfs),
        RunQueue(procfs),
        Pressure(procfs),
        HostMemory(procfs),
        Disks(procfs, sys_root),
        Network(procfs, sys_root, pids),
        InfiniBand(sys_root),
        Ranks(procfs, clock, pids),
        Containers(procfs, sys_root, pids),
    )
