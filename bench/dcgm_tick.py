"""Claim: reading 16 GPUs through DCGM costs milliseconds of CPU a tick, and one small process.

`run()` feeds the client with ready-made answers in the vendor's structures, so that what is
measured is ours: the child's part (unpack, encode) for the read of one tick of 10 s with all its
samples, and the parent's part (decode, judge, pair). The engine's own work is not in it, nor what
the vendor's library needs for a request. Memory is that of a real child with the fake bindings
loaded.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from ctypes import addressof
from pathlib import Path
from typing import Any

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.sources.dcgm.bindings import Bindings
from otel_ofu.sources.dcgm.child import Child
from otel_ofu.sources.dcgm.client import ClientDependencies, connect
from otel_ofu.sources.dcgm.read import Interpreter, SampleTimes
from otel_ofu.sources.dcgm.session import DcgmSession
from otel_ofu.sources.dcgm.settings import DcgmSettings, endpoint
from otel_ofu.sources.dcgm.wire import ReadRequest, SamplesReply, StartRequest, frame, parse_reply

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.sources.dcgm.rig import (
    FAKE,
    INTERVAL_S,
    START_S,
    Rig,
    forget_modules,
    h100,
)

FIELDS = 48
TICKS = 20
PAGE = os.sysconf("SC_PAGE_SIZE")


class Answers:
    """The vendor's call with ready answers: what it costs is a copy and new times."""

    def __init__(self, agent: Any, clock: VirtualClock) -> None:  # noqa: ANN401 - vendor's module
        self._real = agent.dcgmEntitiesGetLatestValues
        self._clock = clock
        self._ready: dict[tuple[int, int], Any] = {}

    def __call__(self, handle: int, pairs: Sequence[Any], ids: Sequence[int], flags: int) -> object:
        key = (len(pairs), len(ids))
        if key not in self._ready:
            self._ready[key] = self._real(handle, pairs, ids, flags)
        answer = type(self._ready[key]).from_buffer_copy(self._ready[key])
        ts_us = int(self._clock.now_s() * 1e6)
        for value in answer:
            value.ts = ts_us
        return answer


class Histories:
    """The same for the call that gives all samples: one callback for each, as in the library."""

    def __init__(self, loaded: Bindings, clock: VirtualClock) -> None:
        self._real = loaded.dcgm_agent.dcgmGetValuesSince_v2
        self._kind = loaded.dcgm_structs.c_dcgmFieldValue_v1
        self._clock = clock
        self._ready: dict[int, list[tuple[int, int, Any]]] = {}

    def __call__(self, *request: Any) -> int:  # noqa: ANN401 - the vendor's signature
        handle, group, fields, since, callback, data = request
        if fields.value not in self._ready:
            kept: list[tuple[int, int, Any]] = []

            def keep(group: int, entity: int, address: int, _count: int, _data: object) -> int:
                copy = self._kind.from_buffer_copy(self._kind.from_address(address))
                kept.append((group, entity, copy))
                return 0

            self._real(handle, group, fields, since, type(callback)(keep), data)
            self._ready[fields.value] = [row for row in kept if row[2].ts]
        rows = self._ready[fields.value]
        now_us = int(self._clock.now_s() * 1e6)
        moved_us = now_us - max(value.ts for _, _, value in rows)
        for entity_group, entity, value in rows:
            value.ts += moved_us
            callback(entity_group, entity, addressof(value), 1, data)
        return now_us + 1


def tick_cpu_s(gpus: int) -> tuple[float, float]:
    """Median CPU seconds of one tick: in the child, and in the parent."""
    forget_modules()
    rig = Rig({"gpus": [h100(i) for i in range(gpus)]})
    interpreter = Interpreter(load_registry(), START_S, with_profiling=True)
    ids = [f.id for f in interpreter.fields[:FIELDS]]
    start = StartRequest(DcgmSettings().client(), ids, INTERVAL_S / 2, 1.0)
    loaded = rig.load(str(FAKE), "")
    dependencies = ClientDependencies(refusal=rig.refusal)
    engine = connect(loaded, endpoint(DcgmSettings()), rig.clock, dependencies)
    session = DcgmSession(engine, start, rig.clock)
    rig.clock.advance(INTERVAL_S)
    session.read()
    rig.clock.advance(INTERVAL_S)
    answers = Answers(loaded.dcgm_agent, rig.clock)
    loaded.dcgm_agent.dcgmEntitiesGetLatestValues = answers
    loaded.dcgm_agent.dcgmGetValuesSince_v2 = Histories(loaded, rig.clock)
    child, parent = [], []
    for _ in range(TICKS):
        began_s = time.process_time()
        rig.clock.advance(INTERVAL_S)
        reply = SamplesReply(
            epoch=1, targets=None, of_target=session.read(), watched_since_s=START_S
        )
        body = frame(reply)[4:]
        child.append(time.process_time() - began_s)
        parent.append(judging_cpu_s(interpreter, session, rig, body))
    session.close()
    rig.close()
    return sorted(child)[TICKS // 2], sorted(parent)[TICKS // 2]


def judging_cpu_s(interpreter: Interpreter, session: DcgmSession, rig: Rig, body: bytes) -> float:
    targets = session.targets()
    now_s = rig.clock.now_s()
    moment = SampleTimes(now_s, START_S, INTERVAL_S / 2)
    window = Window(now_s - INTERVAL_S, now_s)
    began_s = time.process_time()
    reply = parse_reply(body)
    assert isinstance(reply, SamplesReply)
    readings = [
        interpreter.reading(t, samples, moment, window)
        for t, samples in zip(targets, reply.of_target, strict=True)
    ]
    spent_s = time.process_time() - began_s
    assert all(r.values["tensor_active"] for r in readings)
    return spent_s


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * PAGE / 1e6


def child_mb() -> tuple[float, float]:
    """Memory of a child that reads 8 GPUs, and what this process grew by for it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.json")
        path.write_text(json.dumps({"gpus": [h100(i) for i in range(8)], "listening": ""}), "utf-8")
        os.environ["FAKE_DCGM_STATE"] = str(path)
        before_mb = resident_mb(os.getpid())
        child = Child()
        try:
            ids = [f.id for f in Interpreter(load_registry(), 0.0, with_profiling=True).fields]
            child.send(
                StartRequest(
                    DcgmSettings(bindings_path=str(FAKE), embedded=True).client(), ids, 5.0, 1.0
                )
            )
            for _ in range(3):
                child.send(ReadRequest(0))
                assert isinstance(child.receive(20.0), SamplesReply)
            return resident_mb(child.pid), resident_mb(os.getpid()) - before_mb
        finally:
            child.stop(2.0)


def run() -> Mapping[str, float | str]:
    results: dict[str, float | str] = {}
    for gpus in (8, 16):
        child_s, parent_s = tick_cpu_s(gpus)
        results[f"child_ms_per_tick_{gpus}_gpus"] = round(child_s * 1e3, 2)
        results[f"parent_ms_per_tick_{gpus}_gpus"] = round(parent_s * 1e3, 2)
        share = (child_s + parent_s) / INTERVAL_S * 100
        results[f"percent_of_a_core_{gpus}_gpus"] = round(share, 3)
    results["child_rss_mb"], grown_mb = (round(x, 1) for x in child_mb())
    results["agent_rss_growth_mb"] = grown_mb
    return results


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(), indent=2) + "\n")
