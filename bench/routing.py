"""10,000 findings that open at once, on the way to a real Alertmanager and to our own receivers.

Measures the time until a real Alertmanager has accepted all of them, what that takes of memory
here, and how many notifications come of them after grouping: by Alertmanager and by our own routes.
Without the peers that `make peers` builds there is no Alertmanager's part.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec

from otel_ofu.files.settings import hook
from otel_ofu.model import Entity, Finding, RankedCause
from otel_ofu.model.clock import SystemClock, VirtualClock
from otel_ofu.notify import Delivery, Router, RouteSettings, queue_limits
from otel_ofu.outbox.queues import Outbox

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.export.servers import HttpServer, http_server  # noqa: E402 - the path comes first
from tests.peers.peer import NotBuiltError  # noqa: E402 - as above
from tests.peers.processes import Alertmanager  # noqa: E402 - as above
from tests.waiting import wait_until  # noqa: E402 - as above

FINDINGS = 10_000
GPUS_OF_A_JOB = 64
NOW_S = 1_800_000_000.0
CAUSE = RankedCause(
    "data_loader",
    "The data loader is too slow",
    0.8,
    evidence=("CPU of the node is 97 % busy (limit 90 %)", "GPU idles 310 ms in each step"),
    next_steps=("Set `num_workers=8` in the DataLoader.",),
)


def findings(now_s: float) -> list[Finding]:
    """One for each GPU of 157 jobs of 64 GPUs."""
    return [_finding(number, now_s) for number in range(FINDINGS)]


def _finding(number: int, now_s: float) -> Finding:
    uuid = f"GPU-{number:032x}"
    attributes = {
        "hw.id": uuid,
        "hw.model": "NVIDIA H100 80GB HBM3",
        "host.name": f"node{number // 8}",
        "ofu.job.id": str(number // GPUS_OF_A_JOB),
        "slurm.job.user": "someone",
    }
    return Finding(
        kind="opened",
        rule="LowOfuWhileBusy",
        entity=Entity("gpu", uuid, attributes),
        fingerprint=f"{number:016x}",
        severity="warning",
        at_s=now_s,
        since_s=now_s - 600,
        summary=f"{uuid}: busy, but OFU is 8 %",
        value=0.08,
        threshold=0.15,
        causes=(CAUSE,),
        facts={"ofu": 0.08, "ofu_before": 0.43, "gpu_hours_lost": 0.1},
    )


def settings(**block: object) -> RouteSettings:
    return msgspec.convert(block, RouteSettings, dec_hook=hook)


@contextmanager
def routing(written: RouteSettings, folder: Path) -> Iterator[tuple[Router, Delivery]]:
    """On disk, as in an agent."""
    clock = SystemClock()
    with closing(Outbox(folder / "outbox.sqlite", queue_limits(written), clock)) as outbox:
        router = Router(written, outbox, clock, folder)
        delivery = Delivery(written, outbox, clock, {})
        delivery.start()
        try:
            yield router, delivery
        finally:
            delivery.shutdown(10.0)
            router.close()


def peak_mib() -> float:
    """The most that this process ever held; `ru_maxrss` would count what started it as well."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak) / 1024


def to_alertmanager(folder: Path) -> dict[str, float | str]:
    """In a process of its own: what others measured before does not count as memory."""
    with http_server() as hook_server, Alertmanager(folder / "am", _telling(hook_server)) as server:
        script = [sys.executable, __file__, "--send", server.url, str(folder)]
        ran = subprocess.run(script, capture_output=True, text=True, timeout=120, check=True)
        found: dict[str, float | str] = json.loads(ran.stdout)
        held = len(server.alerts())
        wait_until(lambda: len(hook_server.got) >= FINDINGS / GPUS_OF_A_JOB, "notifications")
    count = f"Alertmanager: notifications of {held} alerts, by job"
    return {**found, count: len(hook_server.got)}


def _telling(server: HttpServer) -> Mapping[str, object]:
    webhook = {"url": server.url}
    return {
        "route": {"receiver": "hook", "group_by": ["ofu_job_id"], "group_wait": "3s"},
        "receivers": [{"name": "hook", "webhook_configs": [webhook]}],
    }


def send(url: str, folder: Path) -> dict[str, float]:
    said, before_mib = findings(time.time()), peak_mib()
    written = settings(alertmanager={"servers": [url]})
    with routing(written, folder) as (router, delivery):
        began_s = time.perf_counter()
        router.handle(said)
        handled_s = time.perf_counter() - began_s
        (sender,) = delivery.senders
        while sender.stats().sent < FINDINGS:
            time.sleep(0.005)
        accepted_s = time.perf_counter() - began_s
        began_s = time.perf_counter()
        router.tick(time.time())
        resent_s = time.perf_counter() - began_s
    return {
        f"s until {FINDINGS} findings are encoded and on disk": round(handled_s, 2),
        f"s until Alertmanager accepted all {FINDINGS}": round(accepted_s, 2),
        "s of a tick that re-sends all": round(resent_s, 2),
        "MiB of memory for it, at most": round(peak_mib() - before_mib, 1),
    }


def to_own_receivers(folder: Path) -> dict[str, float]:
    """Our own grouping: by job, with the cap of 50 groups and without."""
    found: dict[str, float] = {}
    for most in (50, 1000):
        receiver = {"name": "ops", "webhook_configs": [{"url": "http://127.0.0.1:1"}]}
        written = settings(receivers=[receiver], receiver="ops", max_groups=most)
        clock = VirtualClock(NOW_S)
        with closing(Outbox(folder / f"{most}.sqlite", queue_limits(written), clock)) as outbox:
            router = Router(written, outbox, clock, None)
            router.handle(findings(NOW_S))
            began_s = time.perf_counter()
            router.tick(NOW_S + 31)
            seconds = time.perf_counter() - began_s
            found[f"own routes: notifications, max_groups {most}"] = len(
                outbox.queues["route/ops/webhook-0"]
            )
            found[f"own routes: s of the tick that tells them, max_groups {most}"] = round(
                seconds, 2
            )
            router.close()
    return found


def run() -> dict[str, float | str]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = to_own_receivers(folder)
        try:
            return {**to_alertmanager(folder), **own}
        except NotBuiltError as error:
            return {"Alertmanager": str(error), **own}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--send"]:
        print(json.dumps(send(sys.argv[2], Path(sys.argv[3]))))
    else:
        for what, value in run().items():
            print(f"{what}: {value}")
