"""Claim: keeping every body on disk until it is delivered costs well below a millisecond.

`run()` puts and takes bodies of the size that a node with 8 GPUs makes, on disk and in memory.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import closing
from pathlib import Path

from otel_ofu.model.clock import SystemClock
from otel_ofu.outbox.batch import Body, Limits
from otel_ofu.outbox.queues import Outbox

BODIES = 600
BODY_BYTES = 4_000
"""A body of 8 GPUs with 40 metrics each, see encode.py; 600 are 10 minutes at 1 s."""


def body() -> Body:
    return Body("metrics", os.urandom(BODY_BYTES), 320)


def put_and_take_us(path: Path | None) -> tuple[float, float]:
    """Wall microseconds per body: put, then take and done."""
    bodies = [body() for _ in range(BODIES)]
    with closing(Outbox(path, {"otlp": Limits()}, SystemClock())) as outbox:
        queue = outbox.queues["otlp"]
        began_s = time.perf_counter()
        for made in bodies:
            queue.put(made)
        put_s = time.perf_counter()
        while (batch := queue.take()) is not None:
            queue.done(batch)
        took_s = time.perf_counter()
    return (put_s - began_s) / BODIES * 1e6, (took_s - put_s) / BODIES * 1e6


def kept_bytes(path: Path) -> float:
    """Bytes on disk per body, when 10 minutes of them wait."""
    with closing(Outbox(path, {"otlp": Limits()}, SystemClock())) as outbox:
        for _ in range(BODIES):
            outbox.queues["otlp"].put(body())
    return path.stat().st_size / BODIES


def open_ms(path: Path) -> float:
    began_s = time.perf_counter()
    Outbox(path, {"otlp": Limits()}, SystemClock()).close()
    return (time.perf_counter() - began_s) * 1e3


def run() -> dict[str, float | str]:
    with tempfile.TemporaryDirectory() as folder:
        put_us, take_us = put_and_take_us(Path(folder) / "outbox.sqlite")
        memory_put_us, memory_take_us = put_and_take_us(None)
        kept = Path(folder) / "kept.sqlite"
        return {
            "on disk: us to put a body": round(put_us),
            "on disk: us to take a body and be done": round(take_us),
            "in memory: us to put a body": round(memory_put_us, 1),
            "in memory: us to take a body and be done": round(memory_take_us, 1),
            f"on disk: bytes of a body of {BODY_BYTES} bytes": round(kept_bytes(kept)),
            f"ms to open an outbox in which {BODIES} bodies wait": round(open_ms(kept), 1),
        }


if __name__ == "__main__":
    for what, value in run().items():
        print(f"{what}: {value}")
