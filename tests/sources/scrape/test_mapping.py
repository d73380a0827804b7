import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.vendors import load_vendors
from otel_ofu.model import Gap, GapReason, Owner
from tests.sources.scrape.golden import NOW_S, PAGES, devices, render

NAMES = ["DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"]


def gpu(labels: str = "", number: int = 0) -> str:
    return f'gpu="{number}",UUID="GPU-{number}"' + (f",{labels}" if labels else "")


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.prom")), ids=lambda path: path.stem)
def test_a_page_gives_the_readings_that_were_reviewed(page: Path) -> None:
    expected = page.with_suffix(".json").read_text("utf-8")
    assert render(page.read_text("utf-8")) == expected


@pytest.mark.parametrize("profile_id", load_vendors().profiles)
def test_every_profile_has_a_sample_page(profile_id: str) -> None:
    reviewed = [json.loads(page.read_text("utf-8")) for page in PAGES.glob("*.json")]
    found = {row.get("profile") for rows in reviewed for row in rows}
    assert profile_id in found, f"add a page of {profile_id} to {PAGES}, see golden.py"


def test_old_and_new_spellings_of_one_state_give_equal_values() -> None:
    old = devices((PAGES / "dcgm_48.prom").read_text("utf-8"))
    new = devices((PAGES / "dcgm_49.prom").read_text("utf-8"))
    for before, after in zip(old, new, strict=True):
        assert before.device == after.device
        assert before.values == pytest.approx(after.values)
        assert before.owners == after.owners


def test_no_value_depends_on_the_order_of_the_families() -> None:
    text = (PAGES / "dcgm_mig.prom").read_text("utf-8")
    families = [f"# HELP{part}" for part in text.split("# HELP")[1:]]
    expected = {row.device.uuid: row for row in devices(text)}
    for order in itertools.permutations(families):
        assert {row.device.uuid: row for row in devices("".join(order))} == expected


def test_whole_gpu_values_on_instance_rows_count_once() -> None:
    rows = devices((PAGES / "dcgm_mig.prom").read_text("utf-8"))
    assert [row.values["power"] for row in rows if "power" in row.values] == [400.0]
    whole = next(row for row in rows if not row.device.parent)
    assert {row.device.parent for row in rows if row.device.parent} == {whole.device.uuid}
    assert whole.values["sm_clock"] == 1.41e9


def test_a_gpu_that_jobs_or_pods_share_has_each_of_them_as_an_owner() -> None:
    rows = {row.device.uuid: row for row in devices((PAGES / "dcgm_shared.prom").read_text())}
    assert len(rows) == 4
    assert rows["GPU-00"].values["power"] == 300.5
    assert [owner.job_id for owner in rows["GPU-00"].owners] == ["100", "101"]
    assert [owner.job_id for owner in rows["GPU-03"].owners] == ["ml/a", "ml/b"]
    assert {owner.share for row in rows.values() for owner in row.owners} == {None}


def owners_of(*labels: str) -> list[dict[str, str]]:
    (row,) = devices("".join(f"DCGM_FI_DEV_SM_CLOCK{{{gpu(each)}}} 1410\n" for each in labels))
    return [dict(owner.attributes) for owner in row.owners]


def test_what_the_series_of_one_owner_do_not_agree_on_is_left_out() -> None:
    assert owners_of('pod="a",container="x"', 'pod="a",container="y"', 'pod="b"') == [
        {"k8s.pod.name": "a"},
        {"k8s.pod.name": "b"},
    ]
    two_pods = owners_of('hpc_job="7",pod="a"', 'hpc_job="7",pod="b"')
    assert two_pods == [{"ofu.job.id": "7", "ofu.job.source": "scrape"}]


def test_a_series_that_names_the_pod_alone_is_of_the_only_job() -> None:
    both = {"k8s.pod.name": "a", "ofu.job.id": "7", "ofu.job.source": "scrape"}
    assert owners_of('hpc_job="7"', 'pod="a"', 'hpc_job="0"') == [both]
    jobs = owners_of('hpc_job="7"', 'hpc_job="8"', 'pod="a"')
    assert [each["ofu.job.id"] for each in jobs] == ["7", "8"]
    assert owners_of('namespace="ml"', "") == [{"k8s.namespace.name": "ml"}]


def test_the_exporters_own_pod_owns_no_gpu() -> None:
    busy, idle = devices((PAGES / "dcgm_federated.prom").read_text("utf-8"))
    assert [owner.attributes["k8s.pod.name"] for owner in busy.owners] == ["train-0"]
    assert idle.owners == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("9223372036854775792", GapReason.NOT_READY),
        ("9223372036854775793", GapReason.NOT_SUPPORTED),
        ("9223372036854775794", GapReason.NOT_SUPPORTED),
        ("9223372036854775795", GapReason.NOT_PERMITTED),
        ("9.223372036854776e+18", GapReason.NOT_READY),
        ("2147483632", GapReason.NOT_READY),
        ("2147483634", GapReason.NOT_SUPPORTED),
        ("2147483635", GapReason.NOT_PERMITTED),
        ("140737488355328.000000", GapReason.NOT_READY),
        ("140737488355331", GapReason.NOT_PERMITTED),
        ("1e15", GapReason.NOT_READY),
        ("NaN", GapReason.NOT_READY),
        ("+Inf", GapReason.OUT_OF_RANGE),
        ("1e300", GapReason.OUT_OF_RANGE),
        ("-Inf", GapReason.OUT_OF_RANGE),
        ("-1", GapReason.OUT_OF_RANGE),
        ("ERROR - FAILED TO CONVERT TO STRING", GapReason.FAILED),
    ],
)
def test_a_value_that_is_none_is_a_gap(text: str, reason: GapReason) -> None:
    (row,) = devices(f"DCGM_FI_DEV_POWER_USAGE{{{gpu()}}} {text}\n")
    assert "power" not in row.values
    assert row.gaps["power"].reason is reason


@pytest.mark.parametrize("cycles", ["2147483640", "140737488355328", "9000000000000000000"])
def test_a_total_may_pass_the_blanks_of_gauges(cycles: str) -> None:
    (row,) = devices(f"DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL{{{gpu()}}} {cycles}\n")
    assert row.values["sm_cycles_elapsed"] == float(cycles)


def test_a_clock_in_hertz_may_pass_the_32_bit_blanks() -> None:
    (row,) = devices(f"DCGM_FI_DEV_SM_CLOCK_HERTZ{{{gpu()}}} 2520000000\n")
    assert row.values["sm_clock"] == 2.52e9


def test_a_ratio_that_counts_to_100_is_read_as_percent() -> None:
    one, two = devices(
        f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{gpu()}}} 97\n"
        f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{gpu(number=1)}}} 1\n"
    )
    assert (one.values["gpu_util"], two.values["gpu_util"]) == (0.97, 0.01)


def test_a_value_out_of_range_is_neither_cut_nor_passed_on() -> None:
    (row,) = devices(f"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{{gpu()}}} 1.29\n")
    assert row.values == {}
    assert row.gaps["tensor_active"].reason is GapReason.OUT_OF_RANGE


def test_missing_inputs_say_what_to_add_to_the_exporter() -> None:
    (row,) = devices(f"DCGM_FI_DEV_GPU_TEMP{{{gpu()}}} 40\n")
    assert row.gaps.keys() == {"tensor_active", "sm_clock"}
    assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge" in row.gaps["tensor_active"].detail
    assert "DCGM_FI_DEV_SM_CLOCK, gauge" in row.gaps["sm_clock"].detail


def test_a_value_stands_in_for_a_blank_of_another_spelling() -> None:
    lines = [
        f"DCGM_FI_DEV_SM_CLOCK{{{gpu()}}} 9223372036854775794\n",
        f"DCGM_FI_DEV_SM_CLOCK_HERTZ{{{gpu()}}} 1410000000\n",
    ]
    for order in (lines, lines[::-1]):
        (row,) = devices("".join(order))
        assert row.values["sm_clock"] == 1.41e9


@pytest.mark.parametrize(
    ("line", "profile", "clock_hz"),
    [
        ('gpu_clock{gpu_id="0",clock_type="system"} 1400', "amd-device-metrics-exporter", 1.4e9),
        ('gpu_clock{gpu_index="0"} 1400000000', "amd-rdc", 1.4e9),
        ('gpu_clock{id="0",clock="compute"} 1400000000', "rezolus", 1.4e9),
    ],
)
def test_three_exporters_with_one_metric_name_are_told_apart(
    line: str, profile: str, clock_hz: float
) -> None:
    (row,) = devices(line + "\n")
    assert (row.profile_id, row.values["sm_clock"]) == (profile, clock_hz)


def test_what_a_page_lacks_whose_end_is_missing_is_not_said_to_be_off() -> None:
    (row,) = devices(f"DCGM_FI_DEV_SM_CLOCK{{{gpu()}}} 1410\nDCGM_FI_PROF_PIPE_TENSOR_ACT")
    assert row.gaps["tensor_active"] == Gap(GapReason.FAILED, "the page is cut off")


def clock_of_pod(pod: str, mhz: int, stamp: str) -> str:
    labels = gpu(f'pod="{pod}"')
    return f"DCGM_FI_DEV_SM_CLOCK{{{labels}}} {mhz} {stamp}\n"


def test_of_two_series_of_one_device_the_newer_sample_counts() -> None:
    lines = [clock_of_pod("a", 1000, "NOW-60s"), clock_of_pod("b", 1410, "NOW-1s")]
    for order in (lines, lines[::-1]):
        (row,) = devices("".join(order))
        assert (row.values["sm_clock"], row.stamps["sm_clock"]) == (1.41e9, NOW_S - 1)


def test_a_sample_of_yesterday_does_not_tell_whose_the_gpu_is() -> None:
    (row,) = devices(clock_of_pod("old", 1000, "NOW-2h") + clock_of_pod("new", 1410, "NOW-1s"))
    assert row.owners == (Owner({"k8s.pod.name": "new"}),)
    assert row.values["sm_clock"] == 1.41e9


def test_a_clock_in_an_unexpected_unit_is_a_gap() -> None:
    (row,) = devices('gpu_clock{gpu_index="0"} 1400\n')
    assert row.gaps["sm_clock"].reason is GapReason.OUT_OF_RANGE


def test_the_amd_busy_share_comes_from_its_cycles_where_it_is_not_given() -> None:
    (row,) = devices(
        'gpu_prof_grbm_gui_active{gpu_id="0"} 30\ngpu_prof_grbm_count{gpu_id="0"} 40\n'
    )
    assert row.values["engine_busy"] == 0.75


def test_the_highest_of_several_max_clocks_counts() -> None:
    series = 'gpu_max_clock{{gpu_id="0",clock_type="system",clock_index="{}"}} {}\n'
    (row,) = devices("".join(series.format(i, mhz) for i, mhz in enumerate([1900, 2100, 2000])))
    assert row.values["max_sm_clock"] == 2.1e9


def test_no_elapsed_cycles_are_a_gap_and_no_division() -> None:
    (row,) = devices('active_cycles{gpu_index="0"} 0\nelapsed_cycles{gpu_index="0"} 0\n')
    assert "engine_busy" not in row.values
    assert row.gaps["engine_busy"].reason is GapReason.OUT_OF_RANGE


def test_an_amd_partition_is_a_device_of_its_gpu() -> None:
    whole, part = devices(
        'gpu_clock{gpu_uuid="u",gpu_id="0",gpu_partition_id="0",clock_type="system"} 1400\n'
        'gpu_prof_tensor_active_percent{gpu_uuid="u",gpu_id="0",gpu_partition_id="1"} 10\n'
    )
    assert (part.device.uuid, part.device.parent) == ("u/1", whole.device.uuid)
    assert "sm_clock" not in part.gaps


def test_clock_event_reasons_are_the_bits_of_one_number() -> None:
    (row,) = devices(f"DCGM_FI_DEV_CLOCKS_EVENT_REASONS{{{gpu()}}} {0x4 | 0x80}\n")
    held = {key for key, value in row.values.items() if value == 1}
    assert held == {"throttled:sw_power_cap", "throttled:hw_power_brake_slowdown"}
    assert len(row.values) == 11


@pytest.mark.parametrize("text", ["-1", "-Inf", "1e300", "9223372036854775792", "NaN"])
def test_what_is_no_bit_mask_is_a_gap(text: str) -> None:
    (row,) = devices(f"DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{{{gpu()}}} {text}\n")
    assert row.values == {}
    assert "throttled:gpu_idle" in row.gaps


def nvlink(count: object, labels: str) -> str:
    return f"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{{{labels}}} {count}\n"


def test_links_of_a_gpu_are_summed_once_however_many_jobs_it_has() -> None:
    text = "".join(
        nvlink(link + 1, f'nvlink="{link}",{gpu(f"hpc_job={quote}{job}{quote}")}')
        for link in range(3)
        for job in range(2)
        for quote in '"'
    )
    (row,) = devices(text)
    assert row.values["nvlink_replay_errors"] == 6
    (row,) = devices(text + nvlink(7, gpu()))
    assert row.values["nvlink_replay_errors"] == 7


def test_a_sum_without_one_of_its_parts_is_a_gap() -> None:
    lines = [nvlink(1, f'nvlink="0",{gpu()}'), nvlink("NaN", f'nvlink="1",{gpu()}')]
    for order in (lines, lines[::-1]):
        (row,) = devices("".join(order))
        assert "nvlink_replay_errors" not in row.values
        assert row.gaps["nvlink_replay_errors"].reason is GapReason.NOT_READY


def test_the_labels_of_an_info_series_describe_the_device() -> None:
    lines = [
        'nvidia_smi_gpu_info{uuid="0a",name="NVIDIA L20",index="3",serial="[N/A]"} 1\n',
        'nvidia_smi_temperature_gpu{uuid="0a"} 50\n',
    ]
    for order in (lines, lines[::-1]):
        (row,) = devices("".join(order))
        assert (row.device.uuid, row.device.model, row.device.index) == ("GPU-0a", "NVIDIA L20", 3)
        assert row.device.serial == ""


@pytest.mark.parametrize("code", ["79", "079"])
def test_a_code_in_a_label_becomes_part_of_the_key(code: str) -> None:
    (row,) = devices(f'nvidia_smi_xid_errors_total{{uuid="0a",xid="{code}"}} 2\n')
    assert row.values == {"xid:79": 2.0}


@pytest.mark.parametrize("code", ["", "x", "-1", "12345", "7:9", "\u0667"])
def test_a_label_without_a_code_gives_no_key(code: str) -> None:
    (row,) = devices(f'nvidia_smi_xid_errors_total{{uuid="0a",xid="{code}"}} 2\n')
    assert row.values == {}


def test_a_device_of_several_pods_has_no_owner_where_the_exporter_says_so() -> None:
    name = "not_displayed_for_multi_pod"
    (row,) = devices(f'npu_chip_info_power{{id="0",pod_name="{name}",namespace="{name}"}} 300\n')
    assert row.owners == ()


def test_amd_gives_no_partition_to_a_whole_gpu() -> None:
    (row,) = devices('gpu_gfx_activity{gpu_id="0",gpu_partition_id="NA"} 90\n')
    assert row.device.parent == ""


@pytest.mark.parametrize("exporter", ["gaudi", "neuron"])
def test_busy_time_is_never_tensor_activity(exporter: str) -> None:
    for row in devices((PAGES / f"{exporter}.prom").read_text("utf-8")):
        assert row.quality == "busy_proxy"
        assert row.gaps["tensor_active"].reason is GapReason.NOT_SUPPORTED
        assert 0 <= row.values["busy_proxy"] <= 1


@pytest.mark.parametrize(
    "line",
    [
        "DCGM_FI_DEV_SM_CLOCK 1410",
        'DCGM_FI_DEV_SM_CLOCK{gpu="",UUID=""} 1410',
        'memory_used{job="other"} 1',
        'gpu_clock{id="0",clock="video"} 1',
    ],
)
def test_a_series_that_names_no_device_or_another_thing_is_not_read(line: str) -> None:
    assert devices(line + "\n") == []


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(NAMES), st.integers(0, 1)),
        min_size=1,
        unique_by=lambda row: (row[0], row[1]),
    ),
    st.integers(1, 3),
)
def test_repeated_series_never_change_what_a_device_reads(
    series: list[tuple[int, str, int]], owners: int
) -> None:
    quote = '"'

    def page(count: int) -> str:
        return "".join(
            f"{name}{{{gpu(f'hpc_job={quote}{owner}{quote}', number)}}} {value}\n"
            for number, name, value in series
            for owner in range(count)
        )

    once = {row.device: row.values for row in devices(page(1))}
    assert {row.device: row.values for row in devices(page(owners))} == once
