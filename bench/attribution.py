"""Claim: saying whose GPU it is costs little: 8 GPUs held by 64 processes of one Slurm job.

`run()` measures polls of `JobFinder` over a real tree of files with real file reads: the first one
(nothing is known), a usual one (nothing changed), and one in which no environment can be used. The
driver's own call, milliseconds a GPU, is not in it.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.jobs import JobFinder, JobSettings
from otel_ofu.jobs.settings import KubernetesSettings
from otel_ofu.model import Device

GPUS = 8
PROCESSES = 64
ROUNDS = 50
STEP = "system.slice/slurmstepd.scope/job_77/step_0/user/task_0"
UNLISTED = 200
"""Other variables in each environment; about 8 kB, as a cluster's modules leave it."""


@dataclass(frozen=True)
class Holder:
    device_uuid: str
    pid: int
    gpu_instance_id: int | None = None


def uuid(number: int) -> str:
    return f"GPU-00000000-0000-4000-8000-{number:012x}"


def lay(root: Path, environment: bytes) -> None:
    """A /proc of 64 processes, and the cgroup that they run in."""
    (root / "proc/self/ns").mkdir(parents=True)
    (root / "proc/self/ns/pid").symlink_to("pid:[4026531836]")
    (root / "proc/uptime").write_text("1000.0 1.0\n")
    for pid in range(1000, 1000 + PROCESSES):
        folder = root / f"proc/{pid}"
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} (python) R 1 {'0 ' * 17}5000 0\n")
        (folder / "cgroup").write_text(f"0::/{STEP}\n")
        (folder / "environ").write_bytes(environment)
    step = root / "cgroup" / STEP
    step.mkdir(parents=True)
    (step / "cgroup.procs").write_text("".join(f"{1000 + n}\n" for n in range(PROCESSES)))


def finder(root: Path) -> JobFinder:
    holders = [Holder(uuid(n % GPUS), 1000 + n) for n in range(PROCESSES)]
    devices = [Device(uuid(n), index=n) for n in range(GPUS)]
    nowhere = str(root / "none")
    pods = KubernetesSettings(pod_resources=nowhere, pod_logs=nowhere)
    return JobFinder(
        JobSettings(kubernetes=pods),
        budget_s=60,
        processes=lambda: holders,
        devices=lambda: devices,
        proc_root=root / "proc",
        cgroup_root=root / "cgroup",
    )


def variables() -> bytes:
    own = {"SLURM_JOB_ID": "77", "SLURM_JOB_NAME": "pretrain", "SLURM_STEP_GPUS": "0,1,2,3,4,5,6,7"}
    other = {f"MODULE_VARIABLE_{n}": "/opt/some/path/of/it" for n in range(UNLISTED)}
    return "".join(f"{name}={value}\0" for name, value in (other | own).items()).encode()


def run() -> dict[str, float | str]:
    """CPU milliseconds of one poll, and of all polls of a minute at the default interval."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        lay(root, variables())
        first_ms = _cpu_ms([finder(root) for _ in range(ROUNDS)], 1)
        known = finder(root)
        known.owners(0.0)
        usual_ms = _cpu_ms([known], ROUNDS)
        owners = known.owners(0.0)
        if len(owners) != GPUS or {len(rows[0].pids) for rows in owners.values()} != {8}:
            raise AssertionError(owners)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        lay(root, b"\0" * 8000)
        wiped_ms = _cpu_ms([finder(root)], ROUNDS)
    interval_s = float(JobSettings().interval)
    return {
        "first poll, CPU ms": first_ms,
        "usual poll, CPU ms": usual_ms,
        "poll with all environments overwritten, CPU ms": wiped_ms,
        f"a minute at {interval_s:g} s, CPU ms": usual_ms * 60 / interval_s,
        "share of one core": f"{usual_ms / 1e3 / interval_s:.4%}",
    }


def _cpu_ms(finders: list[JobFinder], polls: int) -> float:
    """Of one poll; each finder polls so many times."""
    started_s = time.process_time()
    for queried in finders:
        for number in range(1, polls + 1):
            queried.owners(1e3 * number)
    return (time.process_time() - started_s) * 1e3 / len(finders) / polls


if __name__ == "__main__":
    for key, value in run().items():
        print(f"{key}: {value}")
