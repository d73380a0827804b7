"""Which source can read the GPUs, and why the others do not.

Enters: the config. Leaves: a `ChosenSource` with what builds each source that the config allows,
the one that is expected to read, and for each that was tried what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from otel_ofu.app.source_reader import Factory
from otel_ofu.app.source_selector import SelectorOptions
from otel_ofu.catalog.registry import load_registry
from otel_ofu.config import Gpu
from otel_ofu.model import Trouble
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceError, SourceUnavailable
from otel_ofu.sources import Source, plugin_source
from otel_ofu.sources.nvml import DEADLINE_S, NvmlSource, SessionOptions
from otel_ofu.sources.scrape import ScrapeSource, endpoints_of

if TYPE_CHECKING:
    from otel_ofu.sources.dcgm.wire import DcgmProbe

AUTO = ("dcgm", "nvml", "scrape")
"""The order of `source: auto`: what data centres run, then the driver, then an exporter."""
DEADLINES = 8
"""So many deadlines of a device are an interval: of all that begin to hang in one round the first
takes two of them, and the others fewer together. Starting value."""
PROBE_S = 15.0
"""Starting value: the client needs 0.3 s of processor time, and a node with 25 times its work gives
it that in 5 s. An engine that is absent refuses at once; only one that hangs costs all of it."""


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """What is wrong with a source that was tried; `remedy`, what to do, may be empty."""

    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class SourceCandidate:
    """One source that was tried. `devices` is how many GPUs it can read.

    `problems` are those beside `message`; `targets` how many targets (endpoints) it has,
    `silent` those that give nothing, with the reason.
    """

    name: str
    usable: bool
    message: str
    remedy: str = ""
    devices: int = 0
    problems: Sequence[SourceProblem] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    targets: int = 0

    @property
    def silence(self) -> str:
        """How many of the targets give nothing; empty where all give something."""
        count = len(self.silent)
        verb = "gives" if count == 1 else "give"
        return f"{count} of {self.targets} endpoints {verb} nothing" if count else ""


@dataclass(frozen=True, slots=True)
class SourceProbe:
    """A candidate, and for each GPU that it knows (by UUID) whether and how it can read it.

    `late` is why not every GPU could be checked, empty when all were.
    """

    candidate: SourceCandidate
    gpus: Mapping[str, tuple[bool, str]] = field(default_factory=dict)
    late: str = ""

    def count_ofu(self) -> int:
        """Of how many GPUs it gives the OFU, as far as it is known."""
        return sum(ok for ok, _ in self.gpus.values())

    def gives_all(self) -> bool:
        """Whether it gives the OFU of every GPU that it knows; a plugin does not say."""
        return self.candidate.usable and not self.late and all(ok for ok, _ in self.gpus.values())

    def of(self, uuid: str) -> tuple[bool, str]:
        """Whether it can read this GPU, and what to report of it."""
        if not self.candidate.usable:
            return False, "does not work here, see above"
        if self.late:
            return self.gpus.get(uuid, (False, self.late))
        if not self.gpus:
            return True, "reads it"
        return self.gpus.get(uuid, (False, "does not see this GPU"))


@dataclass(frozen=True, slots=True)
class SourceKind:
    """One row of the table of sources: how it is built, and how it is tried."""

    build: Callable[[Gpu, Clock], Source]
    probe: Callable[[Gpu, Clock], SourceProbe]


@dataclass(frozen=True, slots=True)
class ChosenSource:
    """The source that is expected to read the GPUs, and all that were tried.

    `name` is empty while none works, and `none` where the agent has no GPUs of its own.
    """

    name: str
    sources: Mapping[str, Factory]
    candidates: Sequence[SourceCandidate]
    local: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        if not self.name:
            return "no GPU found, waiting for one"
        found = (each.message for each in self.candidates if each.name == self.name)
        return next(found, "no GPUs of its own")

    @property
    def options(self) -> SelectorOptions:
        return SelectorOptions(self.sources, self.name, self.local)

    @property
    def shortage(self) -> str:
        """In a few words what `troubles` tells at length."""
        if not self.name:
            return "no GPU can be read"
        return next((each.silence for each in self.candidates if each.name == self.name), "")

    def troubles(self) -> Iterator[str]:
        """Why nothing reads the GPUs, or which endpoints give nothing; empty when all is well."""
        if not self.name:
            yield str(_none(self.candidates))
        for candidate in self.candidates:
            if candidate.name == self.name:
                yield from (f"{target}: {why}" for target, why in candidate.silent.items())

    def require(self) -> None:
        """Raises SourceUnavailable with the reasons of all when none works."""
        if not self.name:
            raise _none(self.candidates)


def factory(name: str, gpu: Gpu, clock: Clock) -> Factory:
    """What builds the source `name`; nothing is opened yet."""
    return lambda: kind_of(name).build(gpu, clock)


def names_of(gpu: Gpu) -> Sequence[str]:
    """The sources that the config allows, best first."""
    return AUTO if gpu.source == "auto" else (gpu.source,)


def choose(gpu: Gpu, clock: Clock) -> ChosenSource:
    """Tries the sources that the config allows until one gives OFU of every GPU that it knows."""
    if gpu.source == "none":
        return ChosenSource("none", {}, [])
    probes: list[SourceProbe] = []
    for name in names_of(gpu):
        probes.append(probe_source(name, gpu, clock))
        if probes[-1].gives_all():
            break
    found = best(probes)
    sources = {name: factory(name, gpu, clock) for name in names_of(gpu)}
    return ChosenSource(
        found.name if found else "", sources, [probe.candidate for probe in probes], _local(gpu)
    )


def best(probes: Sequence[SourceProbe]) -> SourceCandidate | None:
    """The one that gives OFU of most GPUs, of equals the first; None where none works."""
    working = [probe for probe in probes if probe.candidate.usable]
    found = max(working, key=SourceProbe.count_ofu, default=None)
    return found.candidate if found else None


def _local(gpu: Gpu) -> tuple[str, ...]:
    """The sources that speak of this machine's GPUs."""
    return AUTO[:2] if gpu.source == "auto" else ()


def _none(candidates: Sequence[SourceCandidate]) -> SourceUnavailable:
    if len(candidates) == 1:
        only = candidates[0]
        return SourceUnavailable(f"{only.name}: {only.message}", only.remedy)
    tried = "".join(f"\n  {c.name:7} {c.message}" for c in candidates)
    return SourceUnavailable(
        f"no source of GPU counters works here:{tried}",
        "`otel-ofu doctor` shows what to do about each; `otel-ofu demo` needs no GPU",
    )


def probe_source(name: str, gpu: Gpu, clock: Clock) -> SourceProbe:
    """Whether a source works here, tried for real and closed again."""
    try:
        return kind_of(name).probe(gpu, clock)
    except SourceUnavailable as error:
        return SourceProbe(
            SourceCandidate(name, usable=False, message=str(error), remedy=error.remedy)
        )
    except SourceError as error:
        return SourceProbe(SourceCandidate(name, usable=False, message=str(error)))


def _probe_demo(gpu: Gpu, _clock: Clock) -> SourceProbe:
    message = f"simulated node, scenario {gpu.demo.scenario}"
    return SourceProbe(SourceCandidate("demo", usable=True, message=message, devices=gpu.demo.gpus))


def _probe_nvml(gpu: Gpu, clock: Clock) -> SourceProbe:
    source = _nvml(gpu, clock)
    try:
        found, troubles = source.describe(), source.troubles()
    finally:
        source.close()
    gpm = sum(each.has_gpm for each in found)
    message = f"{_gpus(len(found))} through NVML, {gpm} with GPM counters"
    gpus = {
        device.uuid: (each.has_gpm, each.gpm_problem or "GPM counters, so OFU")
        for each in found
        for device in (each.device, *each.instances)
    }
    candidate = SourceCandidate(
        "nvml",
        usable=bool(found),
        message=message,
        devices=len(found),
        problems=_problems(troubles),
    )
    return SourceProbe(candidate, gpus)


def _problems(troubles: Sequence[Trouble]) -> Sequence[SourceProblem]:
    return [SourceProblem(f"{each.target}: {each.detail}") for each in troubles]


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"


def _probe_scrape(gpu: Gpu, clock: Clock) -> SourceProbe:
    source = _scrape(gpu, clock)
    try:
        source.read(clock.now_s())
        endpoints = source.describe()
        troubles, targets = source.troubles(), source.targets()
    finally:
        source.close()
    gpus = {
        report.device.uuid: (not report.missing, "; ".join(report.missing.values()) or "has OFU")
        for each in reversed(endpoints)  # of a GPU on two pages the first is read
        for report in each.devices
    }
    details = {each.target: each.detail for each in troubles}
    candidate = SourceCandidate(
        "scrape",
        usable=bool(gpus),
        message=_pages(len(gpus), targets),
        devices=len(gpus),
        problems=_problems(troubles),
        silent={name: details.get(name, "") for name, ok in targets.items() if not ok},
        targets=len(targets),
    )
    silence = f" ({candidate.silence})" if candidate.silence else ""
    return SourceProbe(replace(candidate, message=candidate.message + silence), gpus)


def _pages(devices: int, targets: Mapping[str, bool]) -> str:
    read = ", ".join(name for name, answers in targets.items() if answers)
    return f"{_gpus(devices)} at {read}"


def _probe_dcgm(gpu: Gpu, _clock: Clock) -> SourceProbe:
    from otel_ofu.sources.dcgm.source import probe  # noqa: PLC0415 - only where it is tried

    return dcgm_probe(probe(gpu.dcgm, PROBE_S))


def dcgm_probe(found: DcgmProbe) -> SourceProbe:
    """What a probe of DCGM found; an engine that did not finish in time is usable all the same."""
    problems = [SourceProblem(each.message, each.remedy) for each in found.problems]
    if not found.reachable:
        first = problems.pop(0) if problems else SourceProblem(_absent(found))
        return SourceProbe(
            SourceCandidate(
                "dcgm", usable=False, message=first.message, remedy=first.remedy, problems=problems
            )
        )
    message = f"host engine {found.engine_version} at {found.address}"
    gpus = {
        each.uuid: (each.ok, each.reason or f"profiling through {each.backend}")
        for each in found.profiling
    }
    late = "" if found.complete else problems.pop().message
    seen = len(gpus) if found.gpus is None else found.gpus
    if late:
        message = f"{message}: {late}"
    elif not seen:
        message = f"{message} sees no GPU"
    elif not gpus:
        late = "no profiling counters are asked for"
    candidate = SourceCandidate(
        "dcgm",
        usable=bool(seen or (late and found.gpus is None)),
        message=message,
        devices=seen,
        problems=problems,
    )
    return SourceProbe(candidate, gpus, late)


def _absent(found: DcgmProbe) -> str:
    return f"no host engine answers at {found.address}"


def _dcgm(gpu: Gpu, clock: Clock) -> Source:
    from otel_ofu.sources.dcgm.source import (  # noqa: PLC0415 - only where it is used
        DcgmSource,
        require_engine,
    )

    require_engine(gpu.dcgm)  # a client process only where it has somebody to talk to
    return DcgmSource(gpu.dcgm, registry=load_registry(), clock=clock, interval_s=gpu.interval)


def _nvml(gpu: Gpu, clock: Clock) -> NvmlSource:
    options = SessionOptions(deadline_s=min(DEADLINE_S, gpu.interval / DEADLINES))
    return NvmlSource(gpu.nvml.library, clock=clock, options=options)


def _scrape(gpu: Gpu, clock: Clock) -> ScrapeSource:
    return ScrapeSource(
        endpoints_of(gpu.scrape),
        registry=load_registry(),
        clock=clock,
        interval_s=gpu.interval,
    )


def _demo(gpu: Gpu, clock: Clock) -> Source:
    from otel_ofu.sources.demo import DemoSource  # noqa: PLC0415 - NumPy, only where it is used

    start_s = math.floor(clock.now_s() / gpu.interval) * gpu.interval - gpu.interval
    return DemoSource(
        gpu.demo.scenario,
        seed=gpu.demo.seed,
        gpus=gpu.demo.gpus,
        start_s=start_s,
        interval_s=gpu.interval,
    )


SOURCES: Mapping[str, SourceKind] = {
    "dcgm": SourceKind(_dcgm, _probe_dcgm),
    "nvml": SourceKind(_nvml, _probe_nvml),
    "scrape": SourceKind(_scrape, _probe_scrape),
    "demo": SourceKind(_demo, _probe_demo),
}


def kind_of(name: str) -> SourceKind:
    """A built-in source, else one of an installed package."""
    return SOURCES.get(name) or _plugin(name)


def _plugin(name: str) -> SourceKind:
    def build(gpu: Gpu, clock: Clock) -> Source:
        block = gpu.plugins.get(name, {})
        try:
            return plugin_source(name, block, float(gpu.interval), clock)
        except ValueError as error:
            raise SourceUnavailable(str(error)) from error

    def probe(gpu: Gpu, clock: Clock) -> SourceProbe:
        source = build(gpu, clock)
        try:
            count = len(source.read(clock.now_s()))
        finally:
            source.close()
        message = f"{_gpus(count)} through the plugin {name}"
        return SourceProbe(SourceCandidate(name, bool(count), message, devices=count))

    return SourceKind(build, probe)
