"""A source over the fake engine on virtual time, in one process."""
# ruff: noqa: ANN401 - values of any type are what this is about

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Reading
from otel_ofu.model.clock import VirtualClock
from otel_ofu.sources.dcgm import bindings
from otel_ofu.sources.dcgm.bindings import Bindings
from otel_ofu.sources.dcgm.client import ClientDependencies, DcgmClient, reports
from otel_ofu.sources.dcgm.endpoint import EngineEndpoint
from otel_ofu.sources.dcgm.settings import DcgmSettings
from otel_ofu.sources.dcgm.source import DcgmSource
from otel_ofu.sources.dcgm.wire import (
    FrameBuffer,
    ProbeRequest,
    ReadRequest,
    Reply,
    Request,
    StartRequest,
    frame,
    parse_reply,
    parse_request,
)

FAKE = Path(__file__).parent / "fake_dcgm" / "bindings" / "python3"
MODULES = ("pydcgm", "dcgm_agent", "dcgm_structs", "dcgm_fields", "dcgmvalue", "fakedcgm_engine")
START_S = 1_700_000_000.0
INTERVAL_S = 10.0
LOCAL = "127.0.0.1:5555"
A10_GROUPS = [
    [0, 1, [1002, 1003, 1004, 1007]], [0, 3, [1008]], [1, 0, [1005]], [2, 0, [1009, 1010]],
    [3, 0, [1001]], [4, 0, [1011, 1012]],
]  # fmt: skip


def h100(gpu_id: int, **more: object) -> dict[str, Any]:
    return {
        "id": gpu_id, "index": gpu_id, "uuid": f"GPU-{gpu_id}",
        "name": "NVIDIA H100 80GB HBM3", **more,
    }  # fmt: skip


def a10(gpu_id: int, **more: object) -> dict[str, Any]:
    return {
        "id": gpu_id, "index": gpu_id, "uuid": f"GPU-{gpu_id}", "name": "NVIDIA A10", "arch": 7,
        "gpm": False, "metric_groups": A10_GROUPS, **more,
    }  # fmt: skip


class LocalChannel:
    """What the child process does, in this one: the same messages over the same wire format."""

    def __init__(self, clock: VirtualClock, dependencies: ClientDependencies) -> None:
        self._clock, self._dependencies = clock, dependencies
        self._client: DcgmClient | None = None
        self._start: StartRequest | None = None
        self._frames = FrameBuffer()
        self.stopped = False

    def send(self, request: Request) -> None:
        request = _over_the_wire(request)
        match request:
            case StartRequest():
                self._start = request
                self._client = DcgmClient(request, self._clock, self._dependencies)
            case ReadRequest():
                assert self._client
                self._frames.feed(frame(self._client.read(request)))
            case ProbeRequest():
                assert self._start
                for report in reports(self._start, self._clock, self._dependencies):
                    self._frames.feed(frame(report))

    def receive(self, timeout_s: float) -> Reply | None:
        body = self._frames.next_body()
        return None if body is None else parse_reply(body)

    def stop(self, grace_s: float) -> None:
        self.stopped = True
        if self._client:
            self._client.close()


def _over_the_wire(request: Request) -> Request:
    buffer = FrameBuffer()
    buffer.feed(frame(request))
    body = buffer.next_body()
    assert body is not None
    return parse_request(body)


class Rig:
    """State, virtual clock, engine and source; `tick` moves all of them."""

    def __init__(self, state: dict[str, Any], **settings: Any) -> None:
        self.state = state
        self.clock = VirtualClock(START_S)
        self.channel: LocalChannel | None = None
        self.engine: Any = None
        self.interval_s = INTERVAL_S
        self.source = DcgmSource(
            DcgmSettings(bindings_path=str(FAKE), **settings),
            registry=load_registry(),
            clock=self.clock,
            interval_s=INTERVAL_S,
            launch=self._launch,
        )

    def load(self, bindings_path: str, library_path: str) -> Bindings:
        """The real loader over the fake modules, with our engine put behind them."""
        sys.path.insert(0, str(FAKE))
        try:
            import fakedcgm_engine  # type: ignore[import-not-found]  # noqa: PLC0415
        finally:
            sys.path.remove(str(FAKE))
        if self.engine is None:
            clock = self.clock
            self.engine = fakedcgm_engine.FakeEngine(
                self.state, clock.now_s, clock.monotonic_s, clock.advance
            )
        fakedcgm_engine.Holder.engine = self.engine
        return bindings.load(bindings_path, library_path)

    def _launch(self) -> LocalChannel:
        self.channel = LocalChannel(self.clock, ClientDependencies(self.load, self.refusal))
        return self.channel

    def refusal(self, where: EngineEndpoint) -> str:
        """As `settings.refusal` of a machine on which the engine of this rig runs."""
        state = self.state
        listens = state.get("up", True) and where.address == state.get("listening", LOCAL)
        return "" if listens or where.kind == "embedded" else "connection refused"

    def tick(self) -> Sequence[Reading]:
        """One interval later: what the source reads."""
        self.clock.advance(self.interval_s)
        return self.source.read(self.clock.now_s())

    def pass_s(self, seconds: float) -> None:
        """Time passes; the engine takes its samples of it as the state is now."""
        self.clock.advance(seconds)
        self.engine.take_samples()

    def ready(self) -> Sequence[Reading]:
        """The first readings after the first interval."""
        self.source.read(self.clock.now_s())
        return self.tick()

    def close(self) -> list[str]:
        """Close everything; what is left in the engine."""
        self.source.close()
        return [] if self.engine is None else list(self.engine.leaks())


def forget_modules() -> None:
    for name in MODULES:
        sys.modules.pop(name, None)


def values(reading: Reading, *keys: str) -> Mapping[str, float]:
    return {k: reading.values[k] for k in keys}
