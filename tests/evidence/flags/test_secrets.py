"""Secrets everywhere a process can have them, searched for everywhere that we write."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.evidence.flags import FlagScanner
from otel_ofu.evidence.settings import FlagSettings
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.model import Entity, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.store import Store
from tests.evidence.flags.rig import BOOK, NOW_S, Rig, seen_in
from tests.evidence.tree import Holder, Tree, gpu
from tests.waiting import HANGS_S

SECRET = "hunter2"
WAITS = 'import sys; print("ready", flush=True); sys.stdin.read()'


def everywhere() -> dict[str, str]:
    """A secret in every variable that is listed, and in some that are not."""
    listed = dict.fromkeys(BOOK.variables, SECRET)
    unlisted = dict.fromkeys(["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY"], SECRET)
    mixed = {
        "LD_PRELOAD": f"/home/{SECRET}/libasan.so /{SECRET}/libvgpu.so",
        "XLA_FLAGS": f"--xla_dump_to=/{SECRET} --xla_gpu_autotune_level=0",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": f"COLL,{SECRET}",
        "NCCL_SOCKET_IFNAME": f"lo,{SECRET}",
        "PYTORCH_CUDA_ALLOC_CONF": f"{SECRET}:1,max_split_size_mb:8,{SECRET}",
        "NCCL_CONF_FILE": f"/{SECRET}/conf",
        "TORCH_DISTRIBUTED_DEBUG": "DETAIL",
    }
    return {**listed, **unlisted, **mixed}


ARGUMENTS = (
    f"/home/{SECRET}/python",
    f"/home/{SECRET}/train.py",
    f"--password={SECRET}",
    "--num_workers",
    SECRET,
    "--debug",
    f"underflow_overflow {SECRET}",
    f"--profile={SECRET}",
    f"--deepspeed_config=/{SECRET}.json",
)


def written(value: object) -> str:
    return repr(value)


def test_no_secret_leaves(
    tree: Tree, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    tree.process(5, everywhere(), ["nsys", "profile", *ARGUMENTS])
    tree.process(
        7, everywhere(), ARGUMENTS, parent=5, libraries=[f"/{SECRET}/libasan.so", f"/{SECRET}.so"]
    )
    tree.process(8, b"\0\0", ARGUMENTS, parent=5)
    tree.process(9, everywhere(), ARGUMENTS)
    tree.refuse(9, "environ")
    for pid in (7, 8):
        tree.inside(pid, "/etc/passwd", f"me:{SECRET}:1000:1000:{SECRET}:/{SECRET}:/bin/sh\n")
        tree.inside(pid, f"/{SECRET}/conf", f"NCCL_ALGO={SECRET}\n{SECRET}\nX={SECRET}\n")
        tree.inside(pid, "/etc/nccl.conf", f"NCCL_PROTO={SECRET}\n")
        switches = f'{{"wall_clock_breakdown": true, "dump_state": "{SECRET}", "x": "{SECRET}"}}'
        tree.inside(pid, f"/{SECRET}.json", switches)
    rig = Rig(tree, holders=[Holder(gpu(0), 7), Holder(gpu(1), 8), Holder(gpu(2), 9)])
    scan = rig.scan()
    assert "DEEPSPEED_TIMERS" in seen_in(scan)
    assert len(seen_in(scan)) > 20  # much was flagged, so that much could have leaked
    entities = {gpu(n): Entity("gpu", gpu(n), {"hw.id": gpu(n)}) for n in range(3)}
    observations = scan.observations(entities, Window(NOW_S - 30, NOW_S))
    registry = load_registry()
    bodies = MetricEncoder(registry, {}, EncoderOptions(0.0)).encode(observations)
    store = Store(registry, state_dir=tmp_path / "state", clock=VirtualClock(NOW_S))
    store.write(observations)
    store.close()
    files = b"".join(f.read_bytes() for f in (tmp_path / "state").rglob("*") if f.is_file())
    assert b"TORCH_DISTRIBUTED_DEBUG" in files
    told = [written(scan), written(rig.scanner.report()), written(observations), caplog.text]
    for text in (*told, *capfd.readouterr()):
        assert SECRET not in text
    for raw in (files, *(body.raw() for body in bodies)):
        assert SECRET.encode() not in raw


def test_no_secret_stands_in_the_report_of_a_scan_that_failed(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> tuple[Holder, ...]:
        raise ValueError(f"invalid literal: {SECRET}")

    scanner = FlagScanner(BOOK, tree.proc, VirtualClock(), processes=broken, budget_s=HANGS_S)
    scan = scanner.scan(NOW_S)
    assert "ValueError in test_secrets.py" in scan.report.problems[0]
    assert SECRET not in written(scan) + caplog.text


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc of Linux")
def test_of_a_real_process_the_flag_is_told_and_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    environment = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "HF_TOKEN": SECRET, "NCCL_NET": SECRET}
    command = [sys.executable, "-I", "-S", "-c", WAITS, "--token", SECRET, "--enforce-eager"]
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        scanner = FlagScanner(
            BOOK,
            processes=lambda: [Holder(gpu(0), process.pid)],
            settings=FlagSettings(trust_pids=True),
            budget_s=HANGS_S,
        )
        now_s = float(os.stat(f"/proc/{process.pid}").st_mtime)  # noqa: PTH116
        scan = scanner.scan(now_s)
        process.kill()
    assert {"TORCH_DISTRIBUTED_DEBUG", "NO_CUDA_GRAPH"} <= seen_in(scan)
    assert SECRET not in written(scan) + caplog.text
