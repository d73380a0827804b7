"""Looks once whether DCGM can be used: enters settings, leaves `DcgmProbe`, within a given time.

For `doctor`, and for choosing a source: DCGM is chosen when a host engine answers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.sources.dcgm import codes
from otel_ofu.sources.dcgm.child import Channel, ChannelClosedError, Child
from otel_ofu.sources.dcgm.fields import fields
from otel_ofu.sources.dcgm.settings import DcgmSettings, endpoint
from otel_ofu.sources.dcgm.source import start_message
from otel_ofu.sources.dcgm.wire import GpuProfiling, ProbeReport, ProbeRequest, Start

_PROBE_INTERVAL_S = 10.0
_STOP_S = 0.5


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is missing, and the command or setting that fixes it (may be empty)."""

    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class DcgmProbe:
    """What was found. Versions are empty where nothing told them.

    `address` is what was tried. `reachable`: an engine answered. `profiling` has one entry per
    GPU or MIG instance and is empty if the time was over before. `complete` is False in that case.
    """

    address: str
    bindings_path: str
    bindings_major: int | None
    library_version: str
    engine_version: str
    reachable: bool
    profiling: tuple[GpuProfiling, ...]
    problems: tuple[Problem, ...]
    complete: bool


def probe(
    settings: DcgmSettings,
    timeout_s: float,
    *,
    registry: Registry | None = None,
    launch: Callable[[], Channel] = Child,
) -> DcgmProbe:
    """Ask a child of its own, for `timeout_s` seconds at most (and half a second to end it).

    SourceUnavailable if the settings make no sense; everything else is a problem in the answer.
    """
    where = endpoint(settings)
    ids = [f.id for f in fields(registry or load_registry(), with_profiling=settings.profiling)]
    start = start_message(settings, ids, _PROBE_INTERVAL_S)
    report, problems = ProbeReport(), []
    try:
        report = _asked(launch(), start, timeout_s)
    except ChannelClosedError as error:
        problems = [Problem(str(error))]
    if not report.done and not problems:
        problems = [_late(report, str(where), timeout_s)]
    return _probe(str(where), report, problems)


def _asked(channel: Channel, start: Start, timeout_s: float) -> ProbeReport:
    try:
        channel.send(start)
        channel.send(ProbeRequest())
        return _last_report(channel, timeout_s)
    finally:
        channel.stop(_STOP_S)


def _last_report(channel: Channel, timeout_s: float) -> ProbeReport:
    deadline_s = time.monotonic() + timeout_s
    report = ProbeReport()
    while not report.done:
        reply = channel.receive(max(0.0, deadline_s - time.monotonic()))
        if not isinstance(reply, ProbeReport):
            break
        report = reply
    return report


def _late(report: ProbeReport, where: str, timeout_s: float) -> Problem:
    if report.reachable:
        return Problem(f"no answer about its GPUs within {timeout_s:g} s")
    return Problem(f"no answer from {where} within {timeout_s:g} s", codes.START_ENGINE)


def _probe(where: str, report: ProbeReport, problems: Sequence[Problem]) -> DcgmProbe:
    told = [Problem(sentence, remedy) for sentence, remedy in report.problems]
    return DcgmProbe(
        address=where,
        bindings_path=report.bindings_path,
        bindings_major=report.bindings_major,
        library_version=report.library_version,
        engine_version=report.engine_version,
        reachable=report.reachable,
        profiling=tuple(report.profiling),
        problems=(*told, *problems),
        complete=report.done,
    )
