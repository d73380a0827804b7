"""Claim: following logs at 10,000 lines a second costs a few percent of one core.

`run()` writes logs of several kinds, follows them as the agent does, and returns lines per second
of CPU time, the CPU at 10,000 lines a second, and the memory that it adds.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from otel_ofu.mfu.logs import FollowedLog, Follower, LinePattern, PathTemplate, Scanner
from otel_ofu.model.clock import VirtualClock

LINES = 400_000
LINES_PER_POLL = 10_000
NOISE = (
    "[2026-01-01 00:00:00,000][INFO] rank 0: loading shard 00017 of 00512 from /data/corpus, "
    "offset 1849123, 4096 documents queued, 12 workers alive\n"
)
STEP = (
    " [2026-01-01 00:00:00.000] iteration     1200/  500000 | consumed samples:      1228800 | "
    "elapsed time per iteration (ms): 5312.4 | throughput per GPU (TFLOP/s/GPU): 401.2 | "
    "learning rate: 1.000000E-04 | global batch size:  1024 | lm loss: 2.1E+00 |\n"
)
# One with a rare text, one without any, one that has to look at every line to its end.
OWN = (
    r"speed is (?P<tflops_per_gpu>[\d.]+) TF",
    r"(?i)\w+[-_/]speed\W+(?P<tokens_per_s>[\d.,]+)",
    r"^\S+ .*(?P<mfu_percent>\d+\.\d+)%$",
)


def lines(share_of_steps: float) -> list[str]:
    every = max(1, round(1.0 / share_of_steps)) if share_of_steps else 0
    return [STEP if every and i % every == 0 else NOISE for i in range(LINES_PER_POLL)]


def follow(share_of_steps: float, patterns: Sequence[LinePattern]) -> tuple[float, int]:
    """CPU seconds of following LINES lines, and the reports found."""
    clock, reports = VirtualClock(), 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.log")
        path.touch()
        text = "".join(lines(share_of_steps))
        follower = Follower(
            [FollowedLog(Scanner(patterns=patterns), files=[PathTemplate(str(path))])], clock
        )
        follower.poll(0.0)
        spent_s = 0.0
        with path.open("a", encoding="utf-8") as log:
            for second in range(LINES // LINES_PER_POLL):
                log.write(text)
                log.flush()
                clock.advance(1.0)
                began_s = time.process_time()
                reports += len(follower.poll(float(second)))
                spent_s += time.process_time() - began_s
        follower.close()
    return spent_s, reports


def run() -> dict[str, float | str]:
    results: dict[str, float | str] = {}
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cases = {
        "1 report in 1,000 lines": (0.001, ()),
        "1 report in 1,000 lines, 3 own patterns": (0.001, [LinePattern(text) for text in OWN]),
        "every line a report": (1.0, ()),
    }
    for name, (share, patterns) in cases.items():
        spent_s, reports = follow(share, patterns)
        if reports != round(LINES * share):
            raise RuntimeError(f"{name}: {reports} reports of {LINES} lines")
        results[f"{name}: lines/s on one core"] = round(LINES / spent_s)
        results[f"{name}: % of a core at 10,000 lines/s"] = round(100 * 10_000 * spent_s / LINES, 2)
    after_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    results["memory added at most, MiB"] = round((after_kib - before_kib) / 1024, 1)
    return results


if __name__ == "__main__":
    for what, value in run().items():
        print(f"{what}: {value}")
