"""What `doctor` wants to know: enters settings, leaves reports with more and more in them.

Runs in the child, step by step, so that a step that hangs leaves what the steps before it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources.dcgm import bindings, codes
from otel_ofu.sources.dcgm.bindings import Bindings
from otel_ofu.sources.dcgm.blocks import Periods
from otel_ofu.sources.dcgm.client import Load, connect, failure_of
from otel_ofu.sources.dcgm.engine import Engine, EngineError
from otel_ofu.sources.dcgm.session import Plan, Session
from otel_ofu.sources.dcgm.settings import endpoint
from otel_ofu.sources.dcgm.wire import ProbeReport, Start


def reports(start: Start, clock: Clock, load: Load = bindings.load) -> Iterator[ProbeReport]:
    """After each step all that is known; the last one says `done`."""
    report = ProbeReport()
    settings = start.settings
    try:
        loaded = load(settings.bindings_path, settings.library_path)
    except SourceUnavailable as error:
        yield _with(report, str(error), error.remedy, done=True)
        return
    report = msgspec.structs.replace(
        report, bindings_path=str(loaded.path), bindings_major=loaded.major
    )
    yield report
    try:
        yield from _of_engine(report, start, clock, loaded)
    except EngineError as error:
        failure = failure_of(error, start)
        yield _with(report, failure.message, failure.remedy, done=True)


def _of_engine(
    report: ProbeReport, start: Start, clock: Clock, loaded: Bindings
) -> Iterator[ProbeReport]:
    engine = connect(loaded, endpoint(start.settings))
    try:
        report = _versions(report, engine)
        yield report
        yield _profiling(report, start, clock, engine)
    finally:
        engine.close()


def _versions(report: ProbeReport, engine: Engine) -> ProbeReport:
    library, why_no_library = _ask(engine.library_version)
    version, why_no_engine = _ask(engine.engine_version)
    report = msgspec.structs.replace(
        report, library_version=library, engine_version=version, reachable=True
    )
    for why in (why_no_library, why_no_engine):
        if why:
            report = _with(report, why, codes.MATCH_VERSIONS)
    if _numbers(library) > _numbers(version) > ():
        words = f"the client ({library}) is newer than the host engine ({version})"
        report = _with(report, f"{words}; some calls may fail", codes.MATCH_VERSIONS)
    return report


def _profiling(report: ProbeReport, start: Start, clock: Clock, engine: Engine) -> ProbeReport:
    plan = Plan(tuple(start.fields), Periods(start.watch_s, start.clock_s))
    try:
        session = Session(engine, plan, clock)
    except EngineError as error:
        failure = failure_of(error, start)
        return _with(report, failure.message, failure.remedy, done=True)
    states = session.profiling()
    for state in states:
        if not state.ok:
            report = _with(report, f"{state.uuid}: no profiling: {state.reason}", state.remedy)
    if not session.targets():
        report = _with(report, "the host engine sees no GPU", codes.INSTALL_DRIVER)
    return msgspec.structs.replace(report, profiling=states, done=True)


def _ask(question: Callable[[], str]) -> tuple[str, str]:
    try:
        return question(), ""
    except EngineError as error:
        return "", f"unknown version: {error}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(p) for p in version.split(".") if p.isdigit())


def _with(report: ProbeReport, sentence: str, remedy: str, *, done: bool = False) -> ProbeReport:
    return msgspec.structs.replace(
        report, problems=[*report.problems, (sentence, remedy)], done=done
    )
