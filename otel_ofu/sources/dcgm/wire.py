"""Messages between parent and child: enters and leaves as length-prefixed MessagePack."""

from __future__ import annotations

import msgspec

from otel_ofu.model import Device, Gap, Trouble
from otel_ofu.sources.dcgm.endpoint import EngineEndpoint

MAX_FRAME_BYTES = 16 << 20
"""Far above any answer (32 GPUs with 14 MIG instances need 1 MB); more is a broken peer."""

FUTURE_S = 2.0
"""How far a sample may lie ahead of this machine's clock: engine and agent on two hosts.
Starting value."""

Value = int | float | str | None


class DcgmSample(msgspec.Struct, frozen=True, array_like=True):
    """One value of one field as the engine gave it; `ts_us` is the engine's Unix time."""

    field: int
    status: int
    ts_us: int
    value: Value


class DcgmTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU or MIG compute instance, and by field why it is not read at all.

    `backend` is how it is profiled: gpm, multiplexed or none.
    """

    device: Device
    gaps: dict[int, Gap] = {}
    backend: str = ""


class GpuProfiling(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one GPU gives profiling counters: `backend` is gpm, multiplexed or none."""

    uuid: str
    model: str
    backend: str
    ok: bool
    reason: str = ""
    remedy: str = ""


class ClientSettings(msgspec.Struct, frozen=True, array_like=True):
    """Where the engine is, and the folders of the vendor's client, empty for the usual ones."""

    where: EngineEndpoint
    bindings_path: str = ""
    library_path: str = ""


class StartRequest(msgspec.Struct, frozen=True, tag="start"):
    """First message to a child: `fields` in order of importance, and both periods in seconds.

    `clock_s` is that of what changes within a tick, `watch_s` that of the rest.
    """

    client: ClientSettings
    fields: list[int]
    watch_s: float
    clock_s: float


class ReadRequest(msgspec.Struct, frozen=True, tag="read"):
    """Ask for all that is new; `epoch` is the topology that the parent already has."""

    epoch: int


class ProbeRequest(msgspec.Struct, frozen=True, tag="probe"):
    """Ask what can be reached; answered by several `DcgmProbe`s, each with more in it."""


class SamplesReply(msgspec.Struct, frozen=True, kw_only=True, tag="samples"):
    """`of_target[i]` are the samples of `targets[i]`; `targets` is absent when unchanged.

    `watched_since_s` is when the present watches began; `paused` that profiling is. `troubles` is
    all that is refused or left out at present.
    """

    epoch: int
    targets: list[DcgmTarget] | None
    of_target: list[list[DcgmSample]]
    watched_since_s: float
    paused: bool = False
    troubles: list[Trouble] = []


class FailureReply(msgspec.Struct, frozen=True, kw_only=True, tag="failure"):
    """Nothing could be read; `unavailable` when it will not change by itself.

    `reason` is a word to count by (`codes.FAILURES`).
    """

    message: str
    remedy: str = ""
    reason: str = "failed"
    unavailable: bool = False


class ProbeProblem(msgspec.Struct, frozen=True):
    """One thing that is missing, and the command or setting that fixes it (may be empty)."""

    message: str
    remedy: str = ""


class DcgmProbe(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    """What was found so far. Versions are empty where nothing gave them.

    `address` is what was tried. `reachable`: an engine answered. `gpus` is how many GPUs it sees,
    None before it said so. `profiling` has one entry per GPU or MIG instance and is empty if the
    time was over before. `complete` is False in that case.
    """

    address: str
    bindings_path: str = ""
    bindings_major: int | None = None
    library_version: str = ""
    engine_version: str = ""
    reachable: bool = False
    gpus: int | None = None
    profiling: tuple[GpuProfiling, ...] = ()
    problems: tuple[ProbeProblem, ...] = ()
    complete: bool = False


Request = StartRequest | ReadRequest | ProbeRequest
Reply = SamplesReply | FailureReply | DcgmProbe


def frame(message: Request | Reply) -> bytes:
    """The bytes of a message, with their number as 4 bytes in front."""
    body = msgspec.msgpack.encode(message)
    return len(body).to_bytes(4, "big") + body


def parse_request(body: bytes) -> Request:
    return msgspec.msgpack.decode(body, type=Request)


def parse_reply(body: bytes) -> Reply:
    return msgspec.msgpack.decode(body, type=Reply)


class FrameBuffer:
    """Bytes in any portions, whole message bodies out. ValueError on a size that cannot be."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._bytes += chunk

    def next_body(self) -> bytes | None:
        """The oldest whole body, or None until more bytes came."""
        if len(self._bytes) < 4:  # noqa: PLR2004 - the length prefix of `frame`
            return None
        size = int.from_bytes(self._bytes[:4], "big")
        if size > MAX_FRAME_BYTES:
            raise ValueError(f"a message of {size} bytes; at most {MAX_FRAME_BYTES} are possible")
        if len(self._bytes) < 4 + size:
            return None
        body = bytes(self._bytes[4 : 4 + size])
        del self._bytes[: 4 + size]
        return body
