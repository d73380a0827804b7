"""The engine's client as a state machine: enters requests, leaves replies. Runs in the child.

It connects when first asked, rebuilds everything after the engine went away, and waits longer
after each failure. No exception of the vendor's client leaves it. `reports` answers what `doctor`
asks, step by step, so that a step that hangs leaves what the steps before it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources.dcgm import bindings, codes
from otel_ofu.sources.dcgm.bindings import Bindings
from otel_ofu.sources.dcgm.endpoint import EngineEndpoint, refusal
from otel_ofu.sources.dcgm.engine import EngineError, HostEngine
from otel_ofu.sources.dcgm.session import DcgmSession
from otel_ofu.sources.dcgm.wire import (
    DcgmProbe,
    DcgmTarget,
    FailureReply,
    ProbeProblem,
    ReadRequest,
    SamplesReply,
    StartRequest,
)

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 30.0
VERSION_WAIT_S = 300.0
"""After a refusal that only an upgrade can change."""

SLOW_S = 2.0
"""A peer that gives no answer for so long hangs; one that is no engine ends the connection at once.
Starting value."""


@dataclass(frozen=True, slots=True)
class ClientDependencies:
    """The ways out of the process: how the vendor's client is found, and whether a port is open."""

    load: Callable[[str, str], Bindings] = bindings.load
    refusal: Callable[[EngineEndpoint], str] = refusal


class DcgmClient:
    """Used by one thread. `needs` are exchanged in tests."""

    def __init__(
        self, start: StartRequest, clock: Clock, needs: ClientDependencies | None = None
    ) -> None:
        self._start = start
        self._clock = clock
        self._needs = needs or ClientDependencies()
        self._bindings: Bindings | None = None
        self._session: DcgmSession | None = None
        self._targets: list[DcgmTarget] = []
        self._epoch = 0
        self._wait_s = FIRST_WAIT_S
        self._next_try_s = 0.0
        self._failure = FailureReply(message="not connected yet")

    def read(self, request: ReadRequest) -> SamplesReply | FailureReply:
        """Everything new, or why there is nothing. Connects if there is no connection."""
        try:
            return self._read(request)
        except EngineError as error:
            if self._session is None or error.code != codes.CONNECTION_LOST:
                return self._failed(error)
        # The engine was restarted: all handles are dead, a new session may work at once.
        self._disconnect()
        try:
            return self._read(request)
        except EngineError as error:
            return self._failed(error)

    def close(self) -> None:
        self._disconnect()

    def _read(self, request: ReadRequest) -> SamplesReply | FailureReply:
        session = self._session
        if session is None:
            if self._clock.monotonic_s() < self._next_try_s:
                return self._failure
            session = self._connect()
        elif session.outdated():
            self._disconnect()
            session = self._connect()
        elif session.changed():
            self._renew(session)
        samples = session.read()
        return SamplesReply(
            epoch=self._epoch,
            targets=None if request.epoch == self._epoch else self._targets,
            of_target=samples,
            watched_since_s=session.watched_since_s,
            paused=session.paused,
            troubles=session.troubles(),
        )

    def _connect(self) -> DcgmSession:
        try:
            loaded = self._loaded()
            self._session = open_session(self._start, self._clock, loaded, self._needs)
        except SourceUnavailable as error:
            raise _UnavailableError(error) from error
        self._wait_s = FIRST_WAIT_S
        self._renew(self._session)
        return self._session

    def _loaded(self) -> Bindings:
        if self._bindings is None:
            settings = self._start.client
            self._bindings = self._needs.load(settings.bindings_path, settings.library_path)
        return self._bindings

    def _renew(self, session: DcgmSession) -> None:
        self._epoch += 1
        self._targets = session.targets()

    def _failed(self, error: EngineError) -> FailureReply:
        if error.code == codes.TIMEOUT and self._session is not None:
            # The engine is frozen, not gone: this connection works again when it thaws.
            return failure_of(error, self._start)
        self._disconnect()
        wait_s = VERSION_WAIT_S if error.code in codes.VERSION_CODES else self._wait_s
        self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        self._next_try_s = self._clock.monotonic_s() + wait_s
        self._failure = failure_of(error, self._start)
        return self._failure

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()


class _UnavailableError(EngineError):
    """The client itself cannot be loaded; carries the sentence and the remedy."""

    def __init__(self, error: SourceUnavailable) -> None:
        super().__init__(codes.LIBRARY_NOT_FOUND, str(error), "load the client")
        self.unavailable = error


def open_session(
    start: StartRequest, clock: Clock, loaded: Bindings, needs: ClientDependencies
) -> DcgmSession:
    """Connect and start all watches; nothing stays behind in the engine when that fails."""
    engine = connect(loaded, start.client.where, clock, needs)
    try:
        return DcgmSession(engine, start, clock)
    except BaseException:
        engine.close()
        raise


def connect(
    loaded: Bindings,
    where: EngineEndpoint,
    clock: Clock,
    needs: ClientDependencies | None = None,
) -> HostEngine:
    """A connection over which the engine has answered: making one proves nothing."""
    if why := (needs or ClientDependencies()).refusal(where):
        raise EngineError(codes.CONNECTION_LOST, why, f"connect to {where}")
    began_s = clock.monotonic_s()
    engine = HostEngine(loaded, where)
    try:
        engine.gpu_ids()
    except EngineError as error:
        engine.close()
        if error.code == codes.CONNECTION_LOST:
            raise SilentPeerError(where, clock.monotonic_s() - began_s) from error
        raise
    return engine


class SilentPeerError(EngineError):
    """Somebody listens, but hangs, or answers nothing that DCGM understands."""

    def __init__(self, where: EngineEndpoint, waited_s: float) -> None:
        if waited_s >= SLOW_S:
            detail = f"{where} accepts connections but gave no answer for {waited_s:.0f} s"
            code, self.remedy = codes.TIMEOUT, codes.RESTART_ENGINE
        else:
            detail = f"{where} accepts connections but is not a DCGM host engine"
            code, self.remedy = codes.CONNECTION_LOST, "set address to where nv-hostengine listens"
        super().__init__(code, detail, "list the GPUs")


def failure_of(error: EngineError, start: StartRequest) -> FailureReply:
    """An engine's refusal as a sentence that names what was tried."""
    if isinstance(error, _UnavailableError):
        cause = error.unavailable
        return FailureReply(
            message=str(cause), remedy=cause.remedy, reason="no_client", unavailable=True
        )
    reason = codes.FAILURES.get(error.code, "failed")
    if isinstance(error, SilentPeerError):
        return FailureReply(message=error.detail, remedy=error.remedy, reason=reason)
    known = codes.trouble(error.code, error.detail)
    if error.code == codes.CONNECTION_LOST:
        message = f"no DCGM host engine answers at {start.client.where}: {error.detail}"
    else:
        message = f"{known.detail} (to {error.call}: {error.code})"
    return FailureReply(message=message, remedy=known.remedy, reason=reason)


def reports(
    start: StartRequest, clock: Clock, needs: ClientDependencies | None = None
) -> Iterator[DcgmProbe]:
    """After each step all that is known; the last one is `complete`.

    The first one says that the vendor's client is loaded: from then on the engine is waited for.
    """
    needs = needs or ClientDependencies()
    settings = start.client
    where = settings.where
    report = DcgmProbe(address=str(where))
    try:
        loaded = needs.load(settings.bindings_path, settings.library_path)
    except SourceUnavailable as error:
        yield _with(report, str(error), error.remedy, complete=True)
        return
    report = msgspec.structs.replace(
        report, bindings_path=str(loaded.path), bindings_major=loaded.major
    )
    yield report
    try:
        yield from _of_engine(report, start, clock, connect(loaded, where, clock, needs))
    except EngineError as error:
        failure = failure_of(error, start)
        yield _with(report, failure.message, failure.remedy, complete=True)


def _of_engine(
    report: DcgmProbe, start: StartRequest, clock: Clock, engine: HostEngine
) -> Iterator[DcgmProbe]:
    try:
        report = _versions(report, engine)
        report = msgspec.structs.replace(report, gpus=len(engine.gpu_ids()))
        yield report
        yield _profiling(report, start, clock, engine)
    finally:
        engine.close()


def _versions(report: DcgmProbe, engine: HostEngine) -> DcgmProbe:
    library, why_no_library = _version_of(engine.library_version)
    version, why_no_engine = _version_of(engine.engine_version)
    report = msgspec.structs.replace(
        report, library_version=library, engine_version=version, reachable=True
    )
    for why in (why_no_library, why_no_engine):
        if why:
            report = _with(report, why, codes.MATCH_VERSIONS)
    if _numbers(library) > _numbers(version) > ():
        problem = f"the client ({library}) is newer than the host engine ({version})"
        report = _with(report, f"{problem}; some calls may fail", codes.MATCH_VERSIONS)
    return report


def _profiling(
    report: DcgmProbe, start: StartRequest, clock: Clock, engine: HostEngine
) -> DcgmProbe:
    try:
        session = DcgmSession(engine, start, clock)
    except EngineError as error:
        failure = failure_of(error, start)
        return _with(report, failure.message, failure.remedy, complete=True)
    states = session.profiling()
    for state in states:
        if not state.ok:
            report = _with(report, f"{state.uuid}: no profiling: {state.reason}", state.remedy)
    if not report.gpus:
        report = _with(report, "the host engine sees no GPU", codes.INSTALL_DRIVER)
    return msgspec.structs.replace(report, profiling=tuple(states), complete=True)


def _version_of(request: Callable[[], str]) -> tuple[str, str]:
    try:
        return request(), ""
    except EngineError as error:
        return "", f"unknown version: {error}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(p) for p in version.split(".") if p.isdigit())


def _with(report: DcgmProbe, sentence: str, remedy: str, *, complete: bool = False) -> DcgmProbe:
    problems = (*report.problems, ProbeProblem(sentence, remedy))
    return msgspec.structs.replace(report, problems=problems, complete=complete)
