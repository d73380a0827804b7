"""What works on this machine, what does not, and what to do about it.

Enters: the config and the environment. Leaves: a `Report` for people; nothing is changed and
nothing is sent but an empty request to each OTLP endpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event

from otel_ofu.app.prepare import deriver
from otel_ofu.app.sources import (
    SourceCandidate,
    SourceProbe,
    SourceProblem,
    best,
    factory,
    names_of,
    probe_source,
)
from otel_ofu.app.state import could_be_state_dir
from otel_ofu.config import Config
from otel_ofu.export.otlp import check
from otel_ofu.export.targets import otlp_targets
from otel_ofu.model import Observation, Reading
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceError, SourceUnavailable
from otel_ofu.sources import Source

ANSWER_S = 15.0
"""Starting value: how long a source may take to its first readings, as `PROBE_S`."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was examined. `remedy` is what to do, empty when all is well.

    `parts` are what is wrong with parts of it.
    """

    subject: str
    ok: bool
    message: str
    remedy: str = ""
    parts: Sequence[SourceProblem] = ()


@dataclass(frozen=True, slots=True)
class GpuReport:
    """One GPU: which sources can read it, the clock that OFU is measured against, and OFU's gap."""

    name: str
    sources: Sequence[Check]
    reference: str
    ofu: str


@dataclass(frozen=True, slots=True)
class Report:
    """`able` is whether the agent would read GPUs, `silent` the targets that give it nothing."""

    able: bool
    silent: Sequence[str]
    sources: Sequence[Check]
    gpus: Sequence[GpuReport]
    others: Sequence[Check]


def examine(config: Config, environ: Mapping[str, str], clock: Clock) -> Report:
    """Examines every source, every GPU, and every endpoint."""
    gpu = config.receivers.gpu
    probes = [probe_source(name, gpu, clock) for name in names_of(gpu)]
    chosen = best(probes)
    others = [*_endpoints(config, environ), _state(config, environ)]
    return Report(
        able=chosen is not None and all(f.ok for f in others if f.subject == "state"),
        silent=tuple(chosen.silent) if chosen else (),
        sources=[_source(probe.candidate, chosen) for probe in probes],
        gpus=_gpus(config, clock, chosen, probes),
        others=others,
    )


def _source(candidate: SourceCandidate, chosen: SourceCandidate | None) -> Check:
    message = candidate.message
    if candidate.usable and candidate is not chosen:
        message += f"; not used, because {chosen.name if chosen else 'another'} takes precedence"
    elif candidate is chosen:
        message += "; this one is used"
    return Check(
        candidate.name, candidate.usable, message, candidate.remedy, parts=candidate.problems
    )


def _gpus(
    config: Config, clock: Clock, chosen: SourceCandidate | None, probes: Sequence[SourceProbe]
) -> list[GpuReport]:
    if chosen is None:
        return []
    try:
        observations = _two_rounds(config, clock, chosen.name)
    except SourceError as error:
        return [GpuReport(chosen.name, [], "", str(error))]
    return [_gpu(observation, probes) for observation in observations]


def _two_rounds(config: Config, clock: Clock, name: str) -> Sequence[Observation]:
    """Reads twice, as long apart as a window needs, and derives."""
    gpu = config.receivers.gpu
    source, derived = factory(name, gpu, clock)(), deriver(gpu, "")
    try:
        readings = second_readings(source, clock, min(1.0, float(gpu.interval)), Event().wait)
    finally:
        source.close()
    by_uuid = {reading.device.uuid: reading for reading in readings}
    return [derived.derive(reading, by_uuid.get(reading.device.parent)) for reading in readings]


def second_readings(
    source: Source, clock: Clock, apart_s: float, pause: Callable[[float], object]
) -> Sequence[Reading]:
    """The readings `apart_s` after the first ones; SourceError when these do not come in time."""
    end_s = clock.monotonic_s() + ANSWER_S
    while (late := _read_once(source, clock)) is not None:
        if clock.monotonic_s() >= end_s:
            raise SourceError(f"no answer within {ANSWER_S:g} s: {late}") from late
        pause(apart_s)
    pause(apart_s)
    return source.read(clock.now_s())


def _read_once(source: Source, clock: Clock) -> SourceError | None:
    """Why there were no readings, if that can change by itself."""
    try:
        source.read(clock.now_s())
    except SourceUnavailable:
        raise
    except SourceError as error:
        return error
    return None


def _gpu(observation: Observation, probes: Sequence[SourceProbe]) -> GpuReport:
    attributes = observation.entity.attributes
    uuid = str(attributes.get("hw.id", ""))
    sources = [Check(probe.candidate.name, *probe.of(uuid)) for probe in probes]
    return GpuReport(
        name=f"{attributes.get('hw.model') or 'unknown model'}  {uuid}",
        sources=sources,
        reference=reference_text(observation),
        ofu=ofu_text(observation),
    )


def reference_text(observation: Observation) -> str:
    """The clock that OFU is measured against and where it is from, or why there is none."""
    clock = observation.values.get("reference_clock")
    if clock is None:
        gap = observation.gaps.get("reference_clock")
        detail = gap.detail if gap else "unknown"
        return f"no reference clock: {detail.removeprefix('no reference clock: ')}"
    source = observation.state("reference_clock_source")
    sku = observation.entity.attributes.get("ofu.gpu.sku")
    note = "; unknown model, so OFU is against the device's own maximum" if sku == "unknown" else ""
    return f"reference clock {clock / 1e6:.0f} MHz from {source} (SKU {sku}){note}"


def ofu_text(observation: Observation) -> str:
    """OFU, or why it has no value."""
    if "ofu" in observation.values:
        return f"OFU {100 * observation.values['ofu']:.1f}% just now"
    gap = observation.gaps.get("ofu")
    return f"OFU has no value: {gap.reason.value} {gap.detail}" if gap else "OFU has no value"


def _endpoints(config: Config, environ: Mapping[str, str]) -> Iterator[Check]:
    targets = otlp_targets(config.exporters, environ)
    if not targets:
        keys = "OTEL_EXPORTER_OTLP_ENDPOINT or exporters.otlp_http.endpoint"
        yield Check("OTLP", ok=True, message=f"no endpoint is configured ({keys})")
    for target in targets:
        for signal, settings in target.signals.items():
            answer = check(settings, signal)
            message = f"{answer.endpoint} answers in {1000 * answer.elapsed_s:.0f} ms ({signal})"
            if answer.problem:
                message = f"{answer.endpoint} ({signal}): {answer.problem}"
            remedy = _remedy(answer.problem)
            yield Check("OTLP", not answer.problem, message, remedy)


def _remedy(problem: str) -> str:
    if not problem:
        return ""
    if "HTTP 4" in problem or "HTTP 3" in problem:
        return "something answers there: check path, token and protocol"
    return "is the Collector running, and are address and protocol right?"


def _state(config: Config, environ: Mapping[str, str]) -> Check:
    folder, usable = could_be_state_dir(config.state_dir, environ)
    if usable:
        return Check("state", ok=True, message=f"{folder} can be written")
    remedy = "set state_dir to a folder that this user may write"
    return Check("state", ok=False, message=f"{folder} cannot be written", remedy=remedy)
