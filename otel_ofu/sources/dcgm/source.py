"""The source: enters `DcgmSettings`, leaves readings once a tick, whatever the engine does.

It never waits longer for the child than its budget. A child that is late costs its devices gaps;
one that stays silent is killed and started again. `probe` checks once whether DCGM can be used:
for `doctor`, and for the choice of a source.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.model import Gap, GapReason, Reading, Trouble, Window
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceError, SourceUnavailable
from otel_ofu.sources.dcgm import bindings, codes
from otel_ofu.sources.dcgm.child import STOP_GRACE_S, Channel, ChannelClosedError, Child
from otel_ofu.sources.dcgm.endpoint import EngineEndpoint, refusal
from otel_ofu.sources.dcgm.fields import fields
from otel_ofu.sources.dcgm.read import NAME, Interpreter, SampleTimes
from otel_ofu.sources.dcgm.settings import MIN_INTERVAL_S, DcgmSettings, endpoint
from otel_ofu.sources.dcgm.wire import (
    DcgmProbe,
    DcgmTarget,
    FailureReply,
    ProbeProblem,
    ProbeRequest,
    ReadRequest,
    Reply,
    SamplesReply,
    StartRequest,
)

BUDGET_SHARE = 0.8
"""Of the interval: how long a read waits for the child."""

SILENCE_S = 30.0
"""After which a silent child is killed; at least three intervals."""

_FIRST_RESTART_S = 5.0
_LONGEST_RESTART_S = 60.0
_FASTEST_CLOCK_S = 1.0
"""Starting values."""

_PROBE_INTERVAL_S = 10.0
_LOAD_S = 30.0
"""For a child to start and to load the vendor's client: a third of a second of processor time, of
which a container may have a tenth. Starting value."""

_STOP_S = 0.5
"""For the child of a probe to end."""


def start_message(
    settings: DcgmSettings, field_ids: Sequence[int], interval_s: float
) -> StartRequest:
    """The first message to a child. Fields are sampled twice a tick, so none is ever too old."""
    watch_s = max(MIN_INTERVAL_S, interval_s / 2)
    return StartRequest(settings.client(), list(field_ids), watch_s, min(_FASTEST_CLOCK_S, watch_s))


class DcgmSource:
    """Reads all GPUs and MIG instances that one engine sees.

    `interval_s` is the tick, at least 0.1. `launch` starts the client; tests exchange it.
    SourceUnavailable if the settings make no sense.
    """

    def __init__(
        self,
        settings: DcgmSettings,
        *,
        registry: Registry,
        clock: Clock,
        interval_s: float,
        launch: Callable[[], Channel] = Child,
    ) -> None:
        if not interval_s >= MIN_INTERVAL_S:
            raise SourceUnavailable(
                f"interval {interval_s:g} s: DCGM gives wrong values below {MIN_INTERVAL_S:g} s"
            )
        self._where = endpoint(settings)
        self._host = self._where.remote_host
        self._clock = clock
        self._interval_s = interval_s
        self._launch = launch
        self._interpreter = Interpreter(registry, clock.now_s(), with_profiling=settings.profiling)
        ids = [f.id for f in self._interpreter.fields]
        self._start = start_message(settings, ids, interval_s)
        self._channel: Channel | None = None
        self._requested_s: float | None = None
        self._restart_at_s = 0.0
        self._restart_wait_s = _FIRST_RESTART_S
        self._epoch = 0
        self._targets: Sequence[DcgmTarget] = ()
        self._last_read_s: float | None = None
        self._troubles: Sequence[Trouble] = ()
        self._answered = False

    @property
    def name(self) -> str:
        return NAME

    def read(self, now_s: float) -> Sequence[Reading]:
        """A reading of every device. SourceError when none was ever seen."""
        window = self._window(now_s)
        reply = self._request() or self._late()
        self._answered = isinstance(reply, SamplesReply)
        if isinstance(reply, SamplesReply):
            return self._interpret(reply, window)
        detail = f"{reply.message} ({reply.remedy})" if reply.remedy else reply.message
        self._troubles = (Trouble(str(self._where), reply.reason, detail),)
        if not self._targets:
            raise _error(reply)
        gap = Gap(GapReason.FAILED, reply.message)
        return [self._interpreter.failed(t, gap, window) for t in self._targets]

    def troubles(self) -> Sequence[Trouble]:
        """Why the last read gave nothing, or what the engine refused beside it."""
        return self._troubles

    def targets(self) -> Mapping[str, bool]:
        """Whether the engine answered the last read."""
        return {str(self._where): self._answered}

    def close(self) -> None:
        """End the child, within two seconds."""
        self._drop(STOP_GRACE_S)

    def _window(self, now_s: float) -> Window:
        """Since the last read, or one interval if that is not one interval ago."""
        last_s, self._last_read_s = self._last_read_s, now_s
        usual_s = now_s - self._interval_s
        follows = last_s is not None and abs(last_s - usual_s) < self._interval_s / 2
        return Window(last_s if last_s is not None and follows else usual_s, now_s)

    def _request(self) -> SamplesReply | FailureReply | None:
        """The child's answer to this tick or the one before; None if it is late."""
        try:
            channel = self._running()
            if channel is None:
                return FailureReply(message="the DCGM client process is being started again")
            if self._requested_s is None:
                channel.send(ReadRequest(self._epoch))
                self._requested_s = self._clock.monotonic_s()
            return self._answer(channel.receive(BUDGET_SHARE * self._interval_s))
        except ChannelClosedError as error:
            self._restart_later()
            return FailureReply(message=str(error))

    def _answer(self, reply: Reply | None) -> SamplesReply | FailureReply | None:
        if isinstance(reply, SamplesReply | FailureReply):
            self._requested_s = None
            return reply
        if self._silent_s() >= max(SILENCE_S, 3 * self._interval_s):
            # It may hang in a call for two minutes; a new child can do better, no worse.
            silent_s = self._silent_s()
            self._restart_later()
            return FailureReply(
                message=f"host engine did not answer for {silent_s:.0f} s; "
                "its client process was ended and will be started again",
                remedy=codes.RESTART_ENGINE,
                reason="timeout",
            )
        return None

    def _running(self) -> Channel | None:
        if self._channel is None and self._clock.monotonic_s() >= self._restart_at_s:
            self._channel = self._launch()
            self._channel.send(self._start)
        return self._channel

    def _restart_later(self) -> None:
        self._drop(grace_s=0.0)
        self._restart_at_s = self._clock.monotonic_s() + self._restart_wait_s
        self._restart_wait_s = min(2 * self._restart_wait_s, _LONGEST_RESTART_S)

    def _drop(self, grace_s: float) -> None:
        channel, self._channel = self._channel, None
        self._requested_s = None
        self._epoch = 0
        if channel is not None:
            channel.stop(grace_s)

    def _late(self) -> FailureReply:
        message = f"host engine did not answer for {self._silent_s():.0f} s"
        return FailureReply(message=message, reason="timeout")

    def _silent_s(self) -> float:
        requested_s = self._requested_s
        return 0.0 if requested_s is None else self._clock.monotonic_s() - requested_s

    def _interpret(self, reply: SamplesReply, window: Window) -> list[Reading]:
        self._restart_wait_s = _FIRST_RESTART_S
        self._troubles = reply.troubles
        if reply.targets is not None:
            self._targets = [_on_host(target, self._host) for target in reply.targets]
            self._epoch = reply.epoch
        moment = SampleTimes(
            self._clock.now_s(), reply.watched_since_s, self._start.watch_s, reply.paused
        )
        pairs = zip(self._targets, reply.of_target, strict=True)
        return [self._interpreter.reading(t, s, moment, window) for t, s in pairs]


def _on_host(target: DcgmTarget, host: str) -> DcgmTarget:
    return msgspec.structs.replace(target, device=replace(target.device, host=host))


def _error(reply: FailureReply) -> SourceError:
    if reply.unavailable:
        return SourceUnavailable(reply.message, reply.remedy)
    return SourceError(reply.message)


def probe(
    settings: DcgmSettings,
    timeout_s: float,
    *,
    registry: Registry | None = None,
    launch: Callable[[], Channel] = Child,
    refused: Callable[[EngineEndpoint], str] = refusal,
) -> DcgmProbe:
    """Ask a child of its own; the engine has `timeout_s` seconds from when the child is up.

    Where nobody listens, or no client of DCGM is installed, no child is started. SourceUnavailable
    if the settings make no sense; everything else is a problem in the answer.
    """
    if found := _preflight(settings, refused):
        return found
    where = str(endpoint(settings))
    ids = [f.id for f in fields(registry or load_registry(), with_profiling=settings.profiling)]
    start = start_message(settings, ids, _PROBE_INTERVAL_S)
    try:
        found = _probe_reply(launch(), start, timeout_s) or DcgmProbe(address=where)
    except ChannelClosedError as error:
        return DcgmProbe(address=where, problems=(ProbeProblem(str(error)),))
    if found.complete:
        return found
    late = _late(found, timeout_s, is_embedded=settings.embedded)
    return msgspec.structs.replace(found, problems=(*found.problems, late))


def require_engine(settings: DcgmSettings) -> None:
    """Raises SourceUnavailable where it can be known without a child that nothing can be read."""
    found = _preflight(settings, refusal)
    if found:
        problem = found.problems[0]
        raise SourceUnavailable(problem.message, problem.remedy)


def _preflight(
    settings: DcgmSettings, refused: Callable[[EngineEndpoint], str]
) -> DcgmProbe | None:
    """What can be known at once; None when only a child can tell more."""
    where = endpoint(settings)
    try:
        bindings.locate(settings.bindings_path, settings.library_path, bindings.SearchPaths())
    except SourceUnavailable as error:
        problem = ProbeProblem(str(error), error.remedy)
    else:
        why = refused(where)
        if not why:
            return None
        text = f"no DCGM host engine answers at {where}: {why}"
        problem = ProbeProblem(text, codes.START_ENGINE)
    return DcgmProbe(address=str(where), problems=(problem,), complete=True)


def _probe_reply(channel: Channel, start: StartRequest, timeout_s: float) -> DcgmProbe | None:
    try:
        channel.send(start)
        channel.send(ProbeRequest())
        return _last_report(channel, timeout_s)
    finally:
        channel.stop(_STOP_S)


def _last_report(channel: Channel, timeout_s: float) -> DcgmProbe | None:
    report = channel.receive(_LOAD_S)
    deadline_s = time.monotonic() + timeout_s
    while isinstance(report, DcgmProbe) and not report.complete:
        reply = channel.receive(max(0.0, deadline_s - time.monotonic()))
        if not isinstance(reply, DcgmProbe):
            break
        report = reply
    return report if isinstance(report, DcgmProbe) else None


def _late(found: DcgmProbe, timeout_s: float, *, is_embedded: bool) -> ProbeProblem:
    if not found.bindings_path:
        return ProbeProblem(f"the DCGM client process was not ready within {_LOAD_S:g} s")
    if is_embedded:
        return ProbeProblem(f"the embedded engine did not answer within {timeout_s:g} s")
    if found.reachable:
        text = f"no answer about its GPUs within {timeout_s:g} s"
    else:
        text = f"{found.address} accepts connections but did not answer within {timeout_s:g} s"
    return ProbeProblem(text, codes.RESTART_ENGINE)
