from __future__ import annotations

import pytest

from otel_ofu.model import Entity, GapReason, Window
from tests.evidence.flags.rig import NOW_S, Rig
from tests.evidence.tree import UPTIME_S, Holder, Tree, gpu

DETAIL = "TORCH_DISTRIBUTED_DEBUG"
KEY = f"flag:{DETAIL}"
STARTED_S = NOW_S - UPTIME_S + 50.0


def test_a_flag_is_a_metric_of_its_device(tree: Tree) -> None:
    tree.process(7, {DETAIL: "DETAIL"})
    scan = Rig(tree).scan()
    assert scan.devices[gpu(0)].values[KEY] == 1.0
    assert scan.devices[gpu(0)].values["flag:CUDA_LAUNCH_BLOCKING"] == 0.0
    assert scan.report.problems == ()


@pytest.mark.parametrize(
    ("environment", "seen"),
    [
        ({DETAIL: "detail"}, {DETAIL}),
        ({DETAIL: "INFO"}, {"TORCH_DISTRIBUTED_DEBUG_INFO"}),
        ({DETAIL: "OFF"}, set()),
        ({"TORCH_CPP_LOG_LEVEL": "INFO"}, set()),
        ({"CUDA_LAUNCH_BLOCKING": "0"}, set()),
        ({"CUDA_LAUNCH_BLOCKING": "1"}, {"CUDA_LAUNCH_BLOCKING"}),
        ({"NCCL_BLOCKING_WAIT": "1"}, {"TORCH_NCCL_BLOCKING_WAIT"}),
        ({"PYTORCH_NO_CUDA_MEMORY_CACHING": "0"}, {"PYTORCH_NO_CUDA_MEMORY_CACHING_ZERO"}),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, set()),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True,max_split_size_mb:16"},
            {"PYTORCH_ALLOC_SPLIT"},
        ),
        ({"NCCL_DEBUG": "INFO"}, set()),
        ({"NCCL_DEBUG_SUBSYS": "ALL"}, set()),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV"}, set()),
        ({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,COLL"}, {"NCCL_DEBUG"}),
        ({"NCCL_ALGO": "^NVLS"}, set()),
        ({"NCCL_ALGO": "Ring"}, {"NCCL_ALGO"}),
        ({"NCCL_ALGO": "Ring", "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "1"}, {"NCCL_ALGO"}),
        (
            {"NCCL_ALGO": "Ring", "NVTE_ALLOW_NONDETERMINISTIC_ALGO": "0"},
            {"DETERMINISTIC_MODE"},
        ),
        ({"NCCL_IB_DISABLE": "1"}, {"NCCL_IB_DISABLE"}),
        ({"NCCL_IB_DISABLE": "1", "SLURM_NNODES": "1"}, set()),
        ({"NCCL_IB_DISABLE": "1", "SLURM_NNODES": "4"}, {"NCCL_IB_DISABLE"}),
        ({"NVTE_FUSED_ATTN": "0"}, set()),
        ({"NVTE_FUSED_ATTN": "0", "NVTE_FLASH_ATTN": "0"}, {"NVTE_UNFUSED_ATTENTION"}),
        ({"LD_PRELOAD": "/home/me/libasan.so.8"}, {"SANITIZER_LIBRARY"}),
        ({"LD_PRELOAD": "/home/me/libnccl.so"}, set()),
        ({"CUDA_COREDUMP_FILE": "/tmp/me"}, {"CUDA_DEBUGGER"}),
        ({"XLA_FLAGS": "--xla_gpu_autotune_level=0"}, {"XLA_UNTUNED"}),
    ],
)
def test_flags_of_an_environment(tree: Tree, environment: dict[str, str], seen: set[str]) -> None:
    tree.process(7, environment)
    assert Rig(tree).seen() == seen


@pytest.mark.parametrize(
    ("command", "seen"),
    [
        ("python -m cProfile t.py", {"PYTHON_PROFILER"}),
        ("python -X dev t.py", {"PYTHON_DEV_MODE"}),
        ("vllm serve m --enforce-eager", {"NO_CUDA_GRAPH"}),
        ("python t.py --dataloader_num_workers 0", {"NO_LOADER_WORKERS"}),
        ("python t.py --timing-log-level 2", {"MEGATRON_TIMERS"}),
        ("python t.py --timing-log-level 0", set()),
        ("python -m ipykernel_launcher -f x", {"INTERACTIVE"}),
        ("python t.py --trainer.profiler=simple", {"FRAMEWORK_PROFILER"}),
        ("ncu python t.py", {"NSIGHT_COMPUTE"}),
    ],
)
def test_flags_of_a_command_line(tree: Tree, command: str, seen: set[str]) -> None:
    tree.process(7, {}, command.split())
    assert Rig(tree).seen() == seen


@pytest.mark.parametrize(
    ("command", "architecture", "seen"),
    [
        ("t.py --tensor-model-parallel-size 8", "hopper", set()),
        ("t.py --tensor-model-parallel-size 8 --use-torch-fsdp2", "hopper", set()),
        ("t.py --use-torch-fsdp2", "hopper", {"CUDA_DEVICE_MAX_CONNECTIONS"}),
        ("t.py --tensor-model-parallel-size 1 --fsdp x", "", {"CUDA_DEVICE_MAX_CONNECTIONS"}),
        ("t.py", "hopper", set()),
        ("t.py", "blackwell", {"CUDA_DEVICE_MAX_CONNECTIONS_BLACKWELL"}),
    ],
)
def test_one_connection_is_judged_by_framework_and_hardware(
    tree: Tree, command: str, architecture: str, seen: set[str]
) -> None:
    tree.process(7, {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}, command.split())
    rig = Rig(tree, architectures={gpu(0): architecture} if architecture else {gpu(0): "hopper"})
    assert rig.seen() == seen


def test_what_depends_on_hardware_is_flagged_where_that_is_not_known(tree: Tree) -> None:
    tree.process(7, {"NCCL_NVLS_ENABLE": "0"})
    rig = Rig(tree)
    assert rig.seen() == {"NCCL_NVLS_ENABLE"}
    rig.architectures[gpu(0)] = "ampere"
    assert rig.seen() == set()


def test_a_profiler_is_seen_on_an_ancestor(tree: Tree) -> None:
    tree.process(5, {}, ["/opt/bin/nsys", "profile", "--token=s", "bash"], parent=1)
    tree.process(6, {}, ["bash"], parent=5)
    tree.process(7, {}, parent=6)
    assert Rig(tree).seen() == {"NSIGHT_SYSTEMS"}


def test_a_debugger_and_a_library_are_seen_when_they_come(tree: Tree) -> None:
    tree.process(7, {})
    rig = Rig(tree)
    assert rig.seen() == set()
    tree.process(7, {}, tracer=99, libraries=["/nsys/libToolsInjection64.so"])
    assert rig.seen() == {"TRACED", "CUDA_INJECTION"}
    tree.process(7, {})
    assert rig.seen() == {"CUDA_INJECTION"}


def test_a_folder_named_like_a_library_is_none(tree: Tree) -> None:
    tree.process(7, {}, libraries=["/home/libasan.so/libc.so.6", "[heap]"])
    assert Rig(tree).seen() == set()


def test_one_core_is_seen(tree: Tree) -> None:
    tree.process(7, {}, cpus="3")
    tree.process(8, {}, cpus="0-1,8")
    rig = Rig(tree, holders=[Holder(gpu(0), 7), Holder(gpu(1), 8)])
    devices = rig.scan().devices
    assert [devices[gpu(n)].values["flag:ONE_CORE"] for n in (0, 1)] == [1.0, 0.0]


def test_a_flag_ends_with_its_process(tree: Tree) -> None:
    tree.process(7, {DETAIL: "DETAIL"})
    rig = Rig(tree)
    assert rig.seen() == {DETAIL}
    tree.ends(7)
    tree.process(8, {})
    rig.holders[:] = [Holder(gpu(0), 8)]
    assert rig.device().values[KEY] == 0.0


def test_a_program_that_was_started_in_its_place_is_looked_at_anew(tree: Tree) -> None:
    tree.process(7, {DETAIL: "DETAIL"})
    rig = Rig(tree)
    assert rig.seen()
    tree.process(7, {}, env_start=8192)  # exec
    assert rig.seen() == set()


def test_an_environment_that_is_overwritten_later_is_still_known(tree: Tree) -> None:
    tree.process(7, {DETAIL: "DETAIL"})
    rig = Rig(tree)
    assert rig.seen()
    tree.process(7, b"\0\0\0\0", ["title"])
    assert rig.seen() == {DETAIL}


def test_an_overwritten_environment_leaves_what_an_ancestor_has(tree: Tree) -> None:
    tree.process(6, {DETAIL: "DETAIL"})
    tree.process(7, b"ray::train\0\0\0", ["ray::train"], parent=6)
    scan = Rig(tree).scan()
    flags = scan.devices[gpu(0)]
    assert flags.values[KEY] == 1.0
    # Not seen on the launcher is not the same as not seen.
    assert flags.gaps["flag:CUDA_LAUNCH_BLOCKING"].reason is GapReason.NOT_PERMITTED
    assert flags.gaps["flag:NO_CUDA_GRAPH"].detail.startswith("processes on a GPU have overwritten")
    assert scan.report.wiped == 1


@pytest.mark.parametrize("block", [b"", b"lr=0.1\0\0\0", b"TORCH_DISTRIBUTED_DEBUG=DETAIL\0\0\0"])
def test_an_overwritten_block_is_no_environment(tree: Tree, block: bytes) -> None:
    tree.process(7, block)
    scan = Rig(tree).scan()
    assert scan.report.wiped == 1
    assert KEY in scan.devices[gpu(0)].gaps


def test_an_ancestor_of_another_cgroup_says_nothing_of_the_job(tree: Tree) -> None:
    tree.process(6, {DETAIL: "DETAIL"}, cgroup="/user.slice")
    tree.process(7, b"", parent=6)
    assert Rig(tree).seen() == set()


def test_an_environment_that_may_not_be_read_is_a_gap_and_is_told_once(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    tree.process(7, {DETAIL: "DETAIL"}, ["t.py", "--enforce-eager"])
    tree.refuse(7, "environ")
    tree.refuse(7, "maps")
    rig = Rig(tree)
    rig.scan()
    scan = rig.scan()
    flags = scan.devices[gpu(0)]
    assert flags.gaps[KEY].reason is GapReason.NOT_PERMITTED
    assert KEY not in flags.values
    assert flags.values["flag:NO_CUDA_GRAPH"] == 1.0  # command lines can be read by all
    assert flags.values["flag:ONE_CORE"] == 0.0
    assert flags.gaps["flag:CUDA_INJECTION"].detail
    assert scan.report.unread == 1
    (line,) = scan.report.problems
    assert line == (
        "environment of processes on a GPU not readable "
        "(Is a directory); run the agent as root or with CAP_SYS_PTRACE"
    )
    assert caplog.messages == [f"flag evidence unavailable: {line}"]


def test_a_process_that_cannot_be_looked_at_is_a_gap_for_every_flag(tree: Tree) -> None:
    tree.process(7, {})
    tree.process(8, {})
    tree.refuse(8, "stat")
    flags = Rig(tree, holders=[Holder(gpu(0), 7), Holder(gpu(0), 8)]).device()
    assert flags.values == {}
    assert KEY in flags.gaps


def test_one_process_of_a_device_with_the_flag_is_enough(tree: Tree) -> None:
    tree.process(7, {DETAIL: "DETAIL"})
    tree.process(8, {})
    tree.refuse(8, "environ")
    rig = Rig(tree, holders=[Holder(gpu(0), 7), Holder(gpu(0), 8), Holder(gpu(1), 8)])
    scan = rig.scan()
    assert scan.devices[gpu(0)].values[KEY] == 1.0
    assert KEY in scan.devices[gpu(1)].gaps


@pytest.mark.parametrize("state", ["Z", "X"])
def test_a_process_that_ended_says_nothing(tree: Tree, state: str) -> None:
    tree.process(7, {DETAIL: "DETAIL"}, state=state)
    rig = Rig(tree, holders=[Holder(gpu(0), 7), Holder(gpu(0), 8)])
    scan = rig.scan()
    assert (dict(scan.devices), scan.report.problems) == ({}, ())


def test_hidden_processes_are_told_from_ended_ones(tree: Tree) -> None:
    tree.write("/proc/self/mounts", "proc /proc proc rw,hidepid=2 0 0\n")
    scan = Rig(tree).scan()
    assert KEY in scan.devices[gpu(0)].gaps
    assert "hidepid" in scan.report.problems[0]


def test_in_a_pid_namespace_of_its_own_nothing_is_looked_up(tree: Tree) -> None:
    tree.process(7, {DETAIL: "DETAIL"})
    link = tree.proc / "self" / "ns" / "pid"
    link.unlink()
    link.symlink_to("pid:[4026532999]")
    scan = Rig(tree).scan()
    assert KEY in scan.devices[gpu(0)].gaps
    assert "PID namespace" in scan.report.problems[0]


def test_observations_carry_all_flags_to_the_store_and_the_seen_ones_to_export(tree: Tree) -> None:
    tree.process(7, {DETAIL: "DETAIL"})
    tree.process(8, {})
    rig = Rig(tree, holders=[Holder(gpu(0), 7), Holder(gpu(1), 8), Holder(gpu(2), 8)])
    scan = rig.scan()
    entities = {gpu(n): Entity("gpu", gpu(n), {"hw.id": gpu(n)}) for n in (0, 1)}
    window = Window(rig.now_s - 30.0, rig.now_s)
    stored = scan.observations(entities, window)
    assert [o.entity for o in stored] == list(entities.values())
    assert len(stored[0].values) + len(stored[0].gaps) == len(rig.book.watched)
    exported = scan.observations(entities, window, all_flags=False)
    assert [dict(o.values) for o in exported] == [{KEY: 1.0}, {KEY: 0.0}]


def test_libraries_that_are_loaded_late_are_seen_in_the_end(tree: Tree) -> None:
    tree.process(7, {})
    rig = Rig(tree)
    rig.scan()
    rig.scan()
    tree.process(7, {}, libraries=["/nsys/libToolsInjection64.so"])
    seen = [bool(rig.seen()) for _ in range(20)]
    assert seen.count(True) >= 1
    assert seen == sorted(seen)
