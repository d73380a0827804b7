from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.evidence.host import HostPaths, HostReader
from otel_ofu.model import Entity, GapReason, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.store import Store
from tests.evidence.host.rig import Rig, disk, net
from tests.evidence.tree import Tree

KINDS = load_registry()


@pytest.fixture
def rig(tree: Tree) -> Rig:
    return Rig(tree)


def test_the_node_is_the_entity_and_the_window_is_the_time_since_the_last_read(rig: Rig) -> None:
    first, second = rig.read(), rig.read()
    assert first.entity == Entity("node", "node-1", {"host.name": "node-1"})
    assert (first.window, second.window) == (Window(1010.0, 1010.0), Window(1010.0, 1020.0))


def test_every_metric_of_a_node_has_a_value_or_a_gap_and_none_has_both(rig: Rig) -> None:
    known = {
        key
        for key, metric in KINDS.metrics.items()
        if metric.name.startswith(("system.", "ofu.node.")) and key != "gpu_late_time"
    }
    seen = rig.read()
    keys = {key.partition(":")[0] for key in {**seen.values, **seen.gaps}}
    assert keys == known
    assert not set(seen.values) & set(seen.gaps)
    assert all(KINDS.metric(key).entity == "node" for key in keys)


def test_rates_need_a_second_read(rig: Rig) -> None:
    first = rig.read()
    for key in ("cpu_user", "disk_read", "network_rx", "loopback_io"):
        assert first.gaps[key].reason is GapReason.NOT_READY
    rig.cpu("110 0 55 880 55 1 1 0 0 0")
    second = rig.read()
    assert {"cpu_user", "disk_read", "network_rx", "loopback_io"} <= set(second.values)


def test_shares_of_processor_time(rig: Rig) -> None:
    rig.read()
    rig.cpu("130 10 60 840 55 3 2 0 30 0")
    seen = rig.read()
    modes = ("user", "nice", "system", "idle", "iowait", "interrupt", "steal")
    shares = [seen.values[f"cpu_{mode}"] for mode in modes]
    assert shares == pytest.approx([0.3, 0.1, 0.1, 0.4, 0.05, 0.05, 0.0])
    assert seen.values["cpu_count"] == 2


def test_time_that_went_back_or_stood_still_is_a_gap(rig: Rig) -> None:
    rig.read()
    rig.cpu("150 0 60 850 40 0 0 0 0 0")
    seen = rig.read()
    assert seen.gaps["cpu_iowait"].reason is GapReason.OUT_OF_RANGE
    assert seen.values["cpu_idle"] == pytest.approx(50 / 110)
    assert rig.read().gaps["cpu_user"].reason is GapReason.NOT_READY


def test_pressure_memory_and_the_run_queue(rig: Rig) -> None:
    values = rig.read().values
    assert (values["pressure_io_some"], values["pressure_cpu_full"]) == (0.125, 0.01)
    assert (values["host_mem_used"], values["host_mem_available"]) == (768_000.0, 256_000.0)
    assert values["host_mem_util"] == 0.75
    assert values["run_queue"] == 3


def test_a_kernel_that_does_not_measure_pressure_has_gaps_for_it_alone(rig: Rig) -> None:
    (rig.tree.proc / "pressure" / "memory").unlink()
    rig.tree.write("/proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    seen = rig.read()
    assert seen.gaps["pressure_memory_some"].detail.endswith("(psi=1)")
    assert seen.gaps["pressure_cpu_full"].reason is GapReason.NOT_SUPPORTED  # older kernels
    assert seen.values["pressure_cpu_some"] == 0


def test_disks_count_whole_devices_from_the_first_read_on(rig: Rig) -> None:
    parts = disk("sda", 100, 0) + disk("sda1", 100, 0) + disk("dm-0", 100, 0) + disk("loop0", 9, 9)
    rig.tree.write("/proc/diskstats", parts)
    rig.read()
    rig.tree.write("/proc/diskstats", disk("sda", 300, 20) + disk("dm-0", 900, 0))
    seen = rig.read()
    assert (seen.values["disk_read"], seen.values["disk_write"]) == (200 * 512, 20 * 512)
    assert seen.starts_s["disk_read"] == 1010.0


def test_a_disk_that_comes_and_goes_neither_adds_its_past_nor_takes_it_back(rig: Rig) -> None:
    rig.tree.write("/sys/block/sdb/device", "")
    rig.read()
    rig.tree.write("/proc/diskstats", disk("sda", 20, 20) + disk("sdb", 1_000_000, 0))
    assert rig.read().values["disk_read"] == 10 * 512
    rig.tree.write("/proc/diskstats", disk("sda", 20, 20) + disk("sdb", 1_000_004, 0))
    assert rig.read().values["disk_read"] == 14 * 512
    rig.tree.write("/proc/diskstats", disk("sda", 21, 20))
    assert rig.read().values["disk_read"] == 15 * 512
    rig.tree.write("/proc/diskstats", disk("sda", 3, 20))  # restarted
    assert rig.read().values["disk_read"] == 18 * 512


def test_a_machine_without_disks_has_a_gap(rig: Rig) -> None:
    rig.tree.write("/proc/diskstats", disk("loop0", 1, 1))
    assert rig.read().gaps["disk_read"].reason is GapReason.NOT_SUPPORTED


def test_cards_are_told_from_loopback_and_from_what_is_made_of_cards(rig: Rig) -> None:
    rig.read()
    rows = net(lo=(7, 7, 3), eth0=(100, 50, 1), bond0=(100, 50, 1), veth12=(9, 9, 9))
    rig.tree.write("/proc/1/net/dev", rows)
    values = rig.read().values
    assert (values["network_rx"], values["network_tx"]) == (100, 50)
    assert (values["loopback_io"], values["loopback_packets"]) == (7, 3)


def test_without_devices_behind_them_interfaces_are_told_by_their_names(rig: Rig) -> None:
    (rig.tree.sys / "class" / "net" / "eth0" / "device").unlink()
    rig.read()
    rig.tree.write("/proc/1/net/dev", net(eth0=(100, 50, 1), docker0=(9, 9, 9), lo=(0, 0, 0)))
    assert rig.read().values["network_rx"] == 100


def test_loopback_of_the_containers_counts_once_for_each(rig: Rig) -> None:
    rig.namespace(1, "100")
    for pid, space in ((7, "200"), (8, "200"), (9, "100")):
        rig.tree.process(pid)
        rig.namespace(pid, space)
        rig.tree.write(f"/proc/{pid}/net/dev", net(lo=(0, 0, 0), eth0=(0, 0, 0)))
    rig.pids[:] = [7, 8, 9]
    rig.read()
    for pid in (7, 8, 9):
        rig.tree.write(f"/proc/{pid}/net/dev", net(lo=(5, 5, 2), eth0=(99, 99, 99)))
    values = rig.read().values
    assert (values["loopback_io"], values["loopback_packets"]) == (5, 2)
    assert values["network_rx"] == 0


def test_an_agent_that_may_not_see_the_first_process_reads_its_own_network(rig: Rig) -> None:
    (rig.tree.proc / "1" / "net" / "dev").unlink()
    rig.tree.write("/proc/net/dev", net(lo=(0, 0, 0), eth0=(0, 0, 0)))
    rig.read()
    rig.tree.write("/proc/net/dev", net(lo=(0, 0, 0), eth0=(5, 0, 0)))
    assert rig.read().values["network_rx"] == 5


def test_infiniband_counts_words_of_four_bytes(rig: Rig) -> None:
    rig.port("mlx5_0", sent=1000, received=1000)
    rig.port("mlx5_1", sent=500, received=500)
    rig.port("mlx5_2", down=True)
    first = rig.read()
    assert first.gaps["infiniband_tx"].reason is GapReason.NOT_READY
    rig.port("mlx5_0", sent=1300, received=1000)
    rig.port("mlx5_1", sent=600, received=500)
    seen = rig.read()
    assert (seen.values["infiniband_tx"], seen.values["infiniband_rx"]) == (1600, 0)
    assert (seen.values["infiniband_ports"], seen.values["infiniband_limit"]) == (2, 100e9)
    assert seen.values["infiniband_busiest"] == 0.75
    assert rig.read().gaps["infiniband_busiest"].detail == "no traffic"


def test_infiniband_errors_are_those_that_the_ports_count(rig: Rig) -> None:
    port = rig.port("mlx5_0")
    (port / "counters" / "link_downed").write_text("4\n")
    (port / "hw_counters").mkdir()
    (port / "hw_counters" / "out_of_sequence").write_text("0\n")
    rig.read()
    (port / "counters" / "link_downed").write_text("5\n")
    seen = rig.read()
    assert seen.values["infiniband_errors:link_downed"] == 1
    assert seen.values["infiniband_errors:out_of_sequence"] == 0
    assert seen.gaps["infiniband_errors:symbol_error"].reason is GapReason.NOT_SUPPORTED


def test_ranks_are_shares_of_one_core(rig: Rig) -> None:
    rig.tree.process(7, ticks=100)
    rig.tree.process(8, ticks=100)
    rig.pids[:] = [7, 8]
    assert rig.read().gaps["rank_cpu_max"].detail == "needs a second read"
    rig.tree.process(7, ticks=1100)
    rig.tree.process(8, ticks=2100)
    (rig.tree.proc / "8" / "task" / "8" / "stat").write_text(
        (rig.tree.proc / "8" / "stat").read_text().replace("2100", "600")
    )
    values = rig.read().values
    assert (values["rank_cpu_mean"], values["rank_cpu_max"]) == (1.5, 2.0)
    assert (values["rank_thread_mean"], values["rank_thread_max"]) == (0.75, 1.0)


def test_a_rank_that_took_over_a_process_id_counts_from_its_next_read(rig: Rig) -> None:
    rig.tree.process(7, ticks=100)
    rig.pids[:] = [7]
    rig.read()
    rig.tree.process(7, ticks=9000, start_ticks=6000)
    assert rig.read().gaps["rank_cpu_max"].reason is GapReason.NOT_READY
    rig.tree.process(7, ticks=9500, start_ticks=6000)
    assert rig.read().values["rank_cpu_max"] == 0.5
    rig.tree.ends(7)
    assert rig.read().gaps["rank_cpu_max"].detail == "no process holds a GPU"


def limit(rig: Rig, folder: str, periods: int, throttled: int, cpus: str = "400000 100000") -> None:
    root = f"/sys/fs/cgroup{folder}"
    rig.tree.write(f"{root}/cpu.max", cpus)
    text = f"usage_usec 1\nnr_periods {periods}\nnr_throttled {throttled}\n"
    rig.tree.write(f"{root}/cpu.stat", text)


def test_the_tightest_limit_of_the_containers_counts_wherever_it_is_set(rig: Rig) -> None:
    for pid, cgroup in ((7, "/pods/one/main"), (8, "/pods/two")):
        rig.tree.process(pid, cgroup=cgroup)
    rig.pids[:] = [7, 8]
    limit(rig, "/pods/one", 100, 0)
    limit(rig, "/pods/two", 100, 50, "1600000 100000")
    limit(rig, "/pods/one/main", 0, 0, "max 100000")
    rig.tree.write("/sys/fs/cgroup/pods/two/memory.max", "1000\n")
    rig.tree.write("/sys/fs/cgroup/pods/two/memory.current", "900\n")
    rig.tree.write("/sys/fs/cgroup/pods/two/memory.stat", "anon 1\ninactive_file 200\n")
    rig.tree.write("/sys/fs/cgroup/pods/one/memory.max", "max\n")
    first = rig.read()
    assert first.values["container_cpu_limit"] == 4
    assert first.values["container_mem_util"] == 0.7
    assert first.gaps["container_throttled"].reason is GapReason.NOT_READY
    limit(rig, "/pods/one", 200, 25)
    limit(rig, "/pods/two", 200, 60, "1600000 100000")
    assert rig.read().values["container_throttled"] == 0.25
    assert rig.read().gaps["container_throttled"].detail == "nothing ran in the container"


@pytest.mark.parametrize("cgroup", ["/", "/../../escape"])
def test_without_a_container_there_is_no_limit(rig: Rig, cgroup: str) -> None:
    rig.tree.process(7, cgroup=cgroup)
    rig.pids[:] = [7]
    limit(rig, "", 1, 1)
    seen = rig.read()
    for key in ("container_cpu_limit", "container_throttled", "container_mem_util"):
        assert seen.gaps[key].reason is GapReason.NOT_SUPPORTED


@pytest.mark.parametrize(
    ("path", "text", "key"),
    [
        ("/proc/stat", "", "cpu_user"),
        ("/proc/stat", "cpu  a b c\n", "cpu_count"),
        ("/proc/loadavg", "1.0\n", "run_queue"),
        ("/proc/pressure/io", "some\n", "pressure_io_some"),
        ("/proc/meminfo", "nothing\n", "host_mem_used"),
        ("/proc/meminfo", "MemTotal: 0 kB\nMemAvailable: 0 kB\n", "host_mem_util"),
        ("/proc/diskstats", " 8 0 sda 1\n", "disk_read"),
        ("/proc/1/net/dev", "a\nb\neth0: x\n", "network_rx"),
    ],
)
def test_a_file_in_another_form_is_a_gap_that_is_logged_once(
    rig: Rig, caplog: pytest.LogCaptureFixture, path: str, text: str, key: str
) -> None:
    rig.tree.write(path, text)
    rig.read()
    seen = rig.read()
    assert seen.gaps[key].reason is GapReason.FAILED
    assert len(caplog.records) == 1
    assert "run_queue" in {**seen.values, **seen.gaps}


def test_nothing_at_all_is_gaps_and_no_error(tmp_path: Path) -> None:
    reader = HostReader(
        HostPaths(tmp_path / "no", tmp_path / "none", tmp_path), VirtualClock(), host="n"
    )
    seen = reader.read(5.0)
    assert dict(seen.values) == {}
    assert {gap.reason for gap in seen.gaps.values()} <= {
        GapReason.NOT_SUPPORTED,
        GapReason.NOT_READY,
    }


def test_a_clock_that_was_set_back_gives_a_window_of_no_length(rig: Rig) -> None:
    rig.read()
    assert rig.reader.read(500.0).window == Window(500.0, 500.0)


def test_processes_that_cannot_be_asked_for_cost_their_metrics_alone(tree: Tree) -> None:
    rig = Rig(tree)

    def broken() -> list[int]:
        raise RuntimeError("driver")

    reader = HostReader(rig.paths, rig.clock, host="n", pids=broken)
    seen = reader.read(5.0)
    assert seen.gaps["rank_cpu_max"].reason is GapReason.FAILED
    assert "host_mem_used" in seen.values


def test_the_store_takes_all_of_it(rig: Rig) -> None:
    store = Store(KINDS, clock=VirtualClock(1020.0))
    rig.read()
    store.write([rig.read()])
    assert [entity.id for entity in store.entities("node")] == ["node-1"]
    assert not {"unknown", "refused"} & {name for name, n in store.counts.items() if n}


def test_a_real_node_is_read_within_its_ranges() -> None:
    reader = HostReader(host="here")
    reader.read(1.0)
    seen = reader.read(2.0)
    assert seen.values["host_mem_used"] > 0
    assert seen.values["run_queue"] >= 1
    assert not [key for key, gap in seen.gaps.items() if gap.reason is GapReason.FAILED]
