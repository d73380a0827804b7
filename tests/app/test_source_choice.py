"""Which source reads a GPU, round by round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from otel_ofu.app.source_choice import LONG_PATIENCE, PATIENCE, SourceChoice
from otel_ofu.app.source_reader import ReadResult
from otel_ofu.model import Device, Gap, GapReason, Reading, Window

ORDER = ("dcgm", "nvml", "scrape")
LOCAL = ("dcgm", "nvml")


def reading(uuid: str, tensor: GapReason | float, parent: str = "") -> Reading:
    values = {"power": 100.0}
    gaps = {}
    if isinstance(tensor, GapReason):
        gaps["tensor_active"] = Gap(tensor, "the driver's words")
    else:
        values["tensor_active"] = tensor
    return Reading(Device(uuid, parent=parent), Window(0, 1), "x", values, gaps)


def gpu(tensor: GapReason | float, uuid: str = "G") -> ReadResult:
    return ReadResult([reading(uuid, tensor)])


OFU = gpu(0.5)
FIRST = gpu(GapReason.NOT_READY)
NEVER = gpu(GapReason.NOT_SUPPORTED)
FAILED = ReadResult(failure="failed", message="engine gone")
EMPTY = ReadResult()
UNREFRESHED = ReadResult([replace(FIRST.readings[0], values={})])
DEVICE = Device("G")


def after(*rounds: Mapping[str, ReadResult]) -> SourceChoice:
    choice = SourceChoice(ORDER, LOCAL)
    for results in rounds:
        choice.update(results)
    return choice


@pytest.mark.parametrize(
    ("rounds", "source"),
    [
        ([{"dcgm": OFU, "nvml": OFU, "scrape": OFU}], "dcgm"),
        ([{"dcgm": EMPTY, "nvml": OFU}], "nvml"),
        ([{"dcgm": NEVER, "nvml": OFU}], "nvml"),
        ([{"dcgm": FIRST, "nvml": FIRST}], "dcgm"),
        ([{"nvml": FIRST}, {"nvml": OFU, "dcgm": OFU}], "dcgm"),
        ([{"nvml": OFU}, {"nvml": OFU, "dcgm": FIRST}], "nvml"),
        ([{"nvml": OFU}, {"nvml": OFU, "dcgm": NEVER}], "nvml"),
        ([{"dcgm": NEVER}, {"dcgm": NEVER, "nvml": FIRST}], "dcgm"),
        ([{"dcgm": NEVER}, {"dcgm": NEVER, "nvml": OFU}], "nvml"),
        ([{"nvml": NEVER}, {"nvml": NEVER, "scrape": OFU}], "scrape"),
        ([{"dcgm": OFU}, {"dcgm": FIRST, "nvml": OFU}], "dcgm"),
        ([{"dcgm": OFU}, *[{"dcgm": FAILED, "nvml": OFU}] * (PATIENCE - 1)], "dcgm"),
        ([{"dcgm": OFU}, *[{"dcgm": FAILED, "nvml": OFU}] * PATIENCE], "nvml"),
        ([{"dcgm": OFU}, *[{"dcgm": FAILED, "nvml": NEVER}] * PATIENCE], "nvml"),
        ([{"dcgm": OFU}, *[{"dcgm": FAILED}] * 9], "dcgm"),
        ([{"scrape": OFU}, *[{"scrape": UNREFRESHED, "nvml": NEVER}] * 60], "scrape"),
        ([{"dcgm": OFU}, *[{"dcgm": FIRST, "nvml": OFU}] * LONG_PATIENCE], "nvml"),
        ([{"dcgm": OFU}, {"dcgm": EMPTY}], ""),
        ([{"dcgm": OFU}, {"dcgm": EMPTY, "nvml": OFU}], "nvml"),
    ],
)
def test_the_best_source_that_gives_ofu_reads(
    rounds: list[Mapping[str, ReadResult]], source: str
) -> None:
    assert after(*rounds).source_of(DEVICE) == source


def test_a_change_has_both_sources_and_the_driver_s_words() -> None:
    choice = after({"dcgm": NEVER})
    (change,) = choice.update({"dcgm": NEVER, "nvml": OFU})
    assert (change.gpu, change.before, change.source) == ("G", "dcgm", "nvml")
    assert change.why == "the driver's words"
    assert choice.update({"dcgm": NEVER, "nvml": OFU}) == []


def test_instances_go_with_their_gpu() -> None:
    instance, board = reading("M", 0.5, parent="G"), reading("G", GapReason.NOT_SUPPORTED)
    whole = ReadResult([board, instance])
    choice = after({"nvml": whole}, {"scrape": OFU, "nvml": whole})
    assert choice.source_of(Device("M", parent="G")) == "nvml"


def test_a_page_brings_no_gpu_beside_those_of_this_machine() -> None:
    elsewhere = gpu(0.5, "host:dcgm-exporter:0")
    choice = after({"nvml": NEVER}, {"nvml": NEVER, "scrape": elsewhere})
    assert choice.source_of(elsewhere.readings[0].device) == ""
    assert after({"scrape": elsewhere}).in_use() == {"scrape"}


def test_a_gpu_of_a_page_is_left_once_the_driver_lists_it_by_another_name() -> None:
    elsewhere = gpu(0.5, "host:dcgm-exporter:0")
    choice = after({"scrape": elsewhere}, {"scrape": elsewhere, "nvml": OFU})
    assert choice.source_of(elsewhere.readings[0].device) == ""
    assert choice.source_of(DEVICE) == "nvml"


def test_a_page_that_reads_the_driver_s_gpus_brings_no_others() -> None:
    both = ReadResult([*OFU.readings, reading("host:dcgm-exporter:1", 0.5)])
    choice = after({"nvml": NEVER}, {"nvml": NEVER, "scrape": both}, {"scrape": both})
    assert choice.source_of(DEVICE) == "scrape"
    assert choice.source_of(both.readings[1].device) == ""


def test_gpus_that_the_engine_does_not_see_are_read_by_another() -> None:
    both = ReadResult([*OFU.readings, reading("H", 0.5)])
    choice = after({"dcgm": OFU}, {"dcgm": OFU, "nvml": both})
    assert choice.source_of(DEVICE) == "dcgm"
    assert choice.source_of(Device("H")) == "nvml"


def test_what_could_improve_is_what_comes_before_or_anything_where_ofu_is_missing() -> None:
    good = after({"nvml": OFU})
    assert [good.could_improve(name) for name in ORDER] == [True, False, False]
    first = after({"nvml": FIRST})
    assert [first.could_improve(name) for name in ORDER] == [True, False, False]
    old = after({"nvml": NEVER})
    assert [old.could_improve(name) for name in ORDER] == [True, False, True]
