"""Claim: looking for flags on 64 processes and reading the load of a node cost next to nothing.

`run()` starts 64 real processes with environments of the usual size, scans them, and measures the
first scan, a later one, and one read of the node with them as ranks. The CPU share is that of a
scan each 30 s and a read each 10 s.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.evidence.flags import FlagScanner, load_flags
from otel_ofu.evidence.host import HostReader
from otel_ofu.evidence.settings import FlagSettings

PROCESSES = 64
GPUS = 8
ROUNDS = 9
VARIABLES = 150
SCAN_S, READ_S = 30.0, 10.0
WAITS = 'import sys; print("ready", flush=True); sys.stdin.read()'


@dataclass(frozen=True)
class Holder:
    device_uuid: str
    pid: int


def started() -> list[subprocess.Popen[bytes]]:
    """Processes that wait, with an environment of the usual size and two flags in it."""
    environment = {f"SETTING_{n}": "some value of the usual length" for n in range(VARIABLES)}
    environment |= {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "NCCL_DEBUG": "INFO"}
    command = [sys.executable, "-I", "-S", "-c", WAITS, *(f"--option-{n}={n}" for n in range(40))]
    found = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    for process in found:
        assert process.stdout is not None
        process.stdout.readline()
    return found


def run() -> dict[str, float | str]:
    """Milliseconds of CPU, best and median of some rounds."""
    loaded_s = _times(load_flags)
    processes = started()
    try:
        measured = _measured([process.pid for process in processes])
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return {f"load rules/flags.yaml, ms (median of {ROUNDS})": loaded_s * 1e3, **measured}


def _measured(pids: list[int]) -> dict[str, float | str]:
    holders = [Holder(f"GPU-{n % GPUS}", pid) for n, pid in enumerate(pids)]
    now_s = time.time()
    first = FlagScanner(
        load_flags(),
        Path("/proc"),
        processes=lambda: holders,
        settings=FlagSettings(trust_pids=True),
        budget_s=60.0,
    )
    started_s = time.process_time()
    scan = first.scan(now_s)
    first_s = time.process_time() - started_s
    assert scan.report.processes == PROCESSES
    instants = iter(range(1, 1000))
    later_s = _times(lambda: first.scan(now_s + SCAN_S * next(instants)))
    ranks = HostReader(host="bench", pids=lambda: pids[:GPUS])
    ranks.read(now_s)
    read_s = _times(lambda: ranks.read(time.time()))
    many = HostReader(host="bench", pids=lambda: pids)
    many.read(now_s)
    many_s = _times(lambda: many.read(time.time()))
    share = later_s / SCAN_S + read_s / READ_S
    return {
        f"first scan of {PROCESSES} processes, ms": first_s * 1e3,
        f"later scan of {PROCESSES} processes, ms (median of {ROUNDS})": later_s * 1e3,
        f"read of the node with {GPUS} ranks, ms (median of {ROUNDS})": read_s * 1e3,
        f"read of the node with {PROCESSES} ranks, ms (median of {ROUNDS})": many_s * 1e3,
        "share of one core (scan each 30 s, read each 10 s)": f"{share:.4%}",
    }


def _times(work: Callable[[], object]) -> float:
    """Seconds of CPU of all threads, the median."""
    times = []
    for _ in range(ROUNDS):
        started_s = time.process_time()
        work()
        times.append(time.process_time() - started_s)
    return statistics.median(times)


if __name__ == "__main__":
    for key, value in run().items():
        print(f"{key}: {value}")
