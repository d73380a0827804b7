"""The source over real loopback servers, on virtual instants."""

import contextlib
import math
from collections.abc import Iterator, Sequence

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import GapReason, Reading
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import SourceError
from otel_ofu.sources import Source
from otel_ofu.sources.scrape import ScrapeSource, endpoint_at
from otel_ofu.sources.scrape.freshness import FORGET_AFTER_S, MOST_DEVICES
from tests.sources.scrape.golden import PAGES
from tests.sources.scrape.server import Server, gone, page, serving
from tests.waiting import HANGS_S

INTERVAL_S = 10.0


def gpus(*numbers: int, step: int = 0) -> str:
    return "".join(
        f'DCGM_FI_DEV_SM_CLOCK{{gpu="{n}",UUID="GPU-{n}"}} 1410\n'
        f'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{{gpu="{n}",UUID="GPU-{n}"}} 0.5\n'
        f'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{gpu="{n}",UUID="GPU-{n}"}} {1000 + step}\n'
        for n in numbers
    )


@contextlib.contextmanager
def source_of(*urls: str) -> Iterator[ScrapeSource]:
    source = ScrapeSource(
        [endpoint_at(url, timeout_s=HANGS_S) for url in urls],
        registry=load_registry(),
        clock=SystemClock(),
        interval_s=INTERVAL_S,
    )
    try:
        yield source
    finally:
        source.close()


def by_uuid(readings: Sequence[Reading]) -> dict[str, Reading]:
    found = {reading.device.uuid: reading for reading in readings}
    assert len(found) == len(readings)
    for reading in readings:
        assert reading.values.keys().isdisjoint(reading.gaps)
        assert all(math.isfinite(value) for value in reading.values.values())
    return found


def test_a_page_becomes_readings() -> None:
    text = (PAGES / "dcgm_48.prom").read_text("utf-8")
    with serving(page(text)) as server, source_of(server.url) as source:
        as_source: Source = source
        readings = by_uuid(as_source.read(100.0))
    busy = readings["GPU-0a"]
    assert busy.source == source.name == "scrape"
    assert busy.values["tensor_active"] == 0.4375
    assert (busy.window.start_s, busy.window.end_s) == (90.0, 100.0)
    assert busy.owners[0].attributes["k8s.pod.name"] == "train-0"
    assert source.troubles() == []
    assert source.targets() == {server.url: True}


def test_a_gpu_on_this_machine_names_no_host_whatever_its_exporter_is_called() -> None:
    text = gpus(0).replace('gpu="0"', 'gpu="0",Hostname="c0ffee"')
    with serving(page(text)) as server, source_of(server.url) as source:
        (reading,) = source.read(0.0)
        assert reading.device.host == ""
        server.answer = page("")
        with pytest.raises(SourceError):
            source.read(10.0)


def test_a_page_that_was_not_refreshed_is_not_counted_twice() -> None:
    with serving(page(gpus(0))) as server, source_of(server.url) as source:
        used = []
        for i in range(6):
            server.answer = page(gpus(0, step=i // 3))
            (reading,) = source.read(10.0 * i)
            assert reading.values["tensor_active"] == 0.5
            used.append(reading.window.end_s)
        assert used == [0, 0, 0, 30, 30, 30]


def test_an_exporter_that_stands_still_is_stale() -> None:
    with serving(page(gpus(0))) as server, source_of(server.url) as source:
        for i in range(11):
            source.read(10.0 * i)
        (reading,) = source.read(110.0)
    assert reading.values == {}
    assert reading.gaps["tensor_active"].reason is GapReason.STALE
    assert "more than 90 s" in reading.gaps["tensor_active"].detail


def test_one_endpoint_that_is_away_gives_gaps_and_the_others_go_on() -> None:
    with (
        serving(page(gpus(0))) as one,
        serving(page(gpus(1))) as two,
        source_of(one.url, two.url) as source,
    ):
        source.read(0.0)
        one.answer = page(gpus(0, step=1))
        two.answer = lambda exchange: exchange.reply(b"", 503)
        readings = by_uuid(source.read(10.0))
        assert readings["GPU-0"].values["tensor_active"] == 0.5
        assert readings["GPU-1"].values == {}
        assert readings["GPU-1"].gaps["tensor_active"].reason is GapReason.FAILED
        assert [trouble.target for trouble in source.troubles()] == [two.url]
        assert source.targets() == {one.url: True, two.url: False}
        two.answer = page(gpus(1, step=2))
        assert by_uuid(source.read(20.0))["GPU-1"].values["tensor_active"] == 0.5
        assert source.troubles() == []
        assert source.targets() == {one.url: True, two.url: True}


def test_when_no_endpoint_answers_all_are_named() -> None:
    with gone() as one, gone() as two, source_of(one, two) as source:
        with pytest.raises(SourceError) as caught:
            source.read(0.0)
        assert one in str(caught.value)
        assert two in str(caught.value)
        assert [trouble.target for trouble in source.troubles()] == [one, two]
        assert source.targets() == {one: False, two: False}


def test_a_reload_of_the_exporter_is_a_gap_that_passes() -> None:
    with (
        serving(page(gpus(0))) as one,
        serving(page(gpus(1))) as two,
        source_of(one.url, two.url) as source,
    ):
        source.read(0.0)
        two.answer = page("")
        readings = by_uuid(source.read(10.0))
        assert readings["GPU-1"].gaps["sm_clock"].reason is GapReason.NOT_READY


def test_a_device_on_two_pages_is_read_once_from_the_first_that_answers() -> None:
    other = gpus(0, 1).replace(" 0.5", " 0.25")
    with (
        serving(page(gpus(0))) as one,
        serving(page(other)) as two,
        source_of(one.url, two.url) as source,
    ):
        readings = by_uuid(source.read(0.0))
        assert readings["GPU-0"].values["tensor_active"] == 0.5
        assert readings["GPU-1"].values["tensor_active"] == 0.25
        one.answer = page("")
        two.answer = page(gpus(0, step=1).replace(" 0.5", " 0.25"))
        assert by_uuid(source.read(10.0))["GPU-0"].values["tensor_active"] == 0.25


def test_a_gpu_that_left_the_page_is_a_gap_until_it_is_forgotten() -> None:
    with serving(page(gpus(0, 1))) as server, source_of(server.url) as source:
        source.read(0.0)
        server.answer = page(gpus(0, step=1))
        lost = by_uuid(source.read(10.0))["GPU-1"]
        assert lost.values == {}
        assert "no longer" in lost.gaps["tensor_active"].detail
        server.answer = page(gpus(0, step=2))
        assert "GPU-1" not in by_uuid(source.read(FORGET_AFTER_S + 20.0))


def test_no_more_devices_are_read_and_kept_than_the_limit() -> None:
    with serving(page(gpus(*range(MOST_DEVICES + 1)))) as server, source_of(server.url) as source:
        first = by_uuid(source.read(0.0))
        assert len(first) == MOST_DEVICES
        (trouble,) = source.troubles()
        assert (trouble.target, trouble.reason) == (server.url, "too_many_devices")
        server.answer = page(gpus(*reversed(range(MOST_DEVICES + 1)), step=1))
        assert by_uuid(source.read(10.0)).keys() == first.keys()
        server.answer = page(gpus(-1, -2, step=2))
        readings = by_uuid(source.read(20.0))
        assert len(readings) == MOST_DEVICES
        assert {"GPU--1", "GPU--2"} < readings.keys()
        (trouble,) = source.troubles()
        assert "came and went" in trouble.detail
        source.read(20.0 + FORGET_AFTER_S + 1.0)
        assert source.troubles() == []


def test_an_unknown_page_is_told_with_its_names_and_the_profiles() -> None:
    with (
        serving(page("go_goroutines 8\nnode_load1 0.5\n")) as server,
        source_of(server.url) as source,
        pytest.raises(SourceError) as caught,
    ):
        source.read(0.0)
    assert "go_goroutines, node_load1" in str(caught.value)
    assert "dcgm-exporter" in str(caught.value)
    assert server.url in str(caught.value)


def test_malformed_lines_are_a_problem_in_words_that_last() -> None:
    with serving(page("x 1\n")) as server, source_of(server.url) as source:
        complaints = set()
        for i in range(3):
            bad = 'DCGM_FI_DEV_GPU_TEMP{gpu="0"\n'
            server.answer = page("#\n" * i + bad + gpus(0, step=i))
            assert len(source.read(10.0 * i)) == 1
            complaints |= set(source.troubles())
        (complaint,) = complaints
        assert (complaint.target, complaint.reason) == (server.url, "malformed")
        assert "line 1: DCGM_FI_DEV_GPU_TEMP" in complaint.detail
        server.answer = page(gpus(0, step=3))
        source.read(40.0)
        assert source.troubles() == []


def test_lines_that_differ_are_a_problem_in_words_that_last() -> None:
    lines = [f'DCGM_FI_DEV_GPU_TEMP{{gpu="0",UUID="GPU-0"}} {value}\n' for value in (41, 42)]
    with serving(page("x 1\n")) as server, source_of(server.url) as source:
        complaints = set()
        for i in range(3):
            server.answer = page("#\n" * i + gpus(0, step=i) + "".join(lines[:: 1 - 2 * (i % 2)]))
            assert len(source.read(10.0 * i)) == 1
            complaints |= set(source.troubles())
        (complaint,) = complaints
        assert (complaint.target, complaint.reason) == (server.url, "conflict")
        assert "temperature of GPU-0 on line " in complaint.detail
        server.answer = page(gpus(0, step=3))
        source.read(40.0)
        assert source.troubles() == []


def test_a_metric_that_stands_in_for_another_one_may_differ() -> None:
    both = "".join(
        f'{name}{{gpu_id="0",gpu_uuid="g"}} {value}\n'
        for name, value in (("gpu_junction_temperature", 60), ("gpu_edge_temperature", 50))
    )
    with serving(page(both)) as server, source_of(server.url) as source:
        (reading,) = source.read(0.0)
        assert reading.values["temperature"] == 60
        assert source.troubles() == []


def test_a_page_without_a_last_line_feed_loses_its_last_line_and_says_so() -> None:
    cut = page(gpus(0) + "DCGM_FI_DEV_GPU_TEMP{gpu=")
    with serving(cut) as server, source_of(server.url) as source:
        (reading,) = source.read(0.0)
        (trouble,) = source.troubles()
        server.answer = page(gpus(0, step=1))
        source.read(10.0)
        assert source.troubles() == []
    assert reading.values["tensor_active"] == 0.5
    assert (trouble.target, trouble.reason) == (server.url, "cut_off")


def test_a_mixed_page_is_read_by_all_its_profiles() -> None:
    text = "".join((PAGES / f"{name}.prom").read_text() for name in ("dcgm_48", "gaudi"))
    with serving(page(text)) as server, source_of(server.url) as source:
        readings = source.read(0.0)
        assert {reading.device.vendor for reading in readings} == {"nvidia", "intel"}


def test_describe_says_what_ofu_lacks() -> None:
    lines = 'DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-0"} 1410\n'
    with serving(page(lines)) as server, source_of(server.url) as source:
        source.read(0.0)
        (report,) = source.describe()
    (device,) = report.devices
    assert report.endpoint == server.url
    assert device.missing.keys() == {"tensor_active"}
    assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in device.missing["tensor_active"]


def test_no_endpoint_is_an_error_and_not_silence() -> None:
    with source_of() as source, pytest.raises(SourceError, match="no endpoint"):
        source.read(0.0)


def test_closing_twice_and_reading_again_is_harmless() -> None:
    with serving(page(gpus(0))) as server, source_of(server.url) as source:
        source.read(0.0)
        source.close()
        source.close()
        assert len(source.read(10.0)) == 1


def test_many_endpoints_are_read_side_by_side() -> None:
    with contextlib.ExitStack() as stack:
        servers: list[Server] = [stack.enter_context(serving(page(gpus(n)))) for n in range(12)]
        with source_of(*(server.url for server in servers)) as source:
            assert len(by_uuid(source.read(0.0))) == 12
