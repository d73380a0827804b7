"""What a person reads."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace

import pytest
from rich.console import Console

from otel_ofu.export.console import GpuTable, Lines, rows
from otel_ofu.model import Attribute, Entity, Gap, GapReason, Observation, Window

FULL = {
    "ofu": 0.412,
    "tensor_active": 0.5,
    "clock_factor": 0.824,
    "sm_active": 0.9,
    "dram_active": 0.4,
    "gpu_util": 0.99,
    "power": 650.0,
}
NOT_READY = Gap(GapReason.NOT_READY, "first sample")


def gpu(
    index: int,
    values: Mapping[str, float],
    gaps: Mapping[str, Gap] | None = None,
    more: Mapping[str, Attribute] | None = None,
) -> Observation:
    attributes: dict[str, Attribute] = {
        "hw.id": f"GPU-{index}",
        "hw.model": "NVIDIA H100 80GB HBM3",
        "ofu.gpu.index": index,
        **(more or {}),
    }
    return Observation(
        Entity("gpu", f"GPU-{index}", attributes), Window(0.0, 10.0), values, gaps or {}
    )


def lines(*rounds: list[Observation]) -> list[str]:
    out = io.StringIO()
    screen = Lines(out)
    for observations in rounds:
        screen.export(observations)
    screen.close()
    return out.getvalue().splitlines()


def table(*rounds: list[Observation], note: str = "") -> str:
    out = io.StringIO()
    screen = GpuTable(Console(file=out, width=120, force_terminal=False), title="otel-ofu")
    if note:
        screen.note(note)
    for observations in rounds:
        screen.export(observations)
    screen.close()
    return out.getvalue()


def test_a_row_has_short_cells_and_a_dash_where_a_value_is_absent() -> None:
    (row,), reasons = rows([gpu(3, {"power": 650.0}, {"ofu": NOT_READY})])
    assert (row.gpu, row.model, row.job) == ("3", "H100 80GB HBM3", "-")
    assert row.cells == ["-", "-", "-", "-", "-", "-", "650 W"]
    assert reasons == ["OFU: not ready (first sample)"]


def test_reasons_are_told_once_for_all_gpus_that_have_them() -> None:
    lost = Gap(GapReason.FAILED, "GPU is lost")
    _, reasons = rows(
        [
            gpu(0, {}, {"ofu": lost, "power": lost}),
            gpu(1, {}, {"ofu": lost, "power": lost}),
            gpu(2, FULL),
        ]
    )
    assert reasons == ["OFU, power of GPU 0, 1: failed (GPU is lost)"]


def test_a_mig_instance_is_told_from_its_gpu() -> None:
    instance = gpu(0, FULL, more={"hw.id": "MIG-0123456789", "ofu.mig.profile": "1g.10gb"})
    (row,), _ = rows([instance])
    assert row.gpu == "1g.10gb 01234567"


def test_one_line_per_round() -> None:
    assert lines([gpu(0, FULL), gpu(1, FULL | {"ofu": 0.388})]) == [
        "00:00:10  2 GPUs  OFU 40.0% (min 38.8% max 41.2%)  tensor 50%  GPU util 99%  power 1.3 kW"
    ]


def test_a_mean_says_of_how_many_gpus_it_is() -> None:
    assert "OFU 41.2% of 1 GPUs" in lines([gpu(0, FULL), gpu(1, {})])[0]


def test_reasons_are_repeated_only_when_they_change() -> None:
    other = Gap(GapReason.FAILED, "lost")
    rounds = [
        replace(gpu(0, {"power": 1.0}, {"ofu": gap}), window=Window(10.0 * n, 10.0 * n + 10))
        for n, gap in enumerate([NOT_READY, NOT_READY, other])
    ]
    told = lines(*([one] for one in rounds))
    assert [line.strip() for line in told if line.startswith("   ")] == [
        "OFU: not ready (first sample)",
        "OFU: failed (lost)",
    ]


def test_a_round_that_was_shown_is_not_shown_again() -> None:
    assert len(lines([gpu(0, FULL)], [gpu(0, FULL)])) == 1


@pytest.mark.parametrize(("width", "columns"), [(60, 4), (80, 7), (120, 7)])
def test_on_a_narrow_terminal_no_number_is_cut(width: int, columns: int) -> None:
    out = io.StringIO()
    screen = GpuTable(Console(file=out, width=width, force_terminal=False), title="otel-ofu")
    screen.export([gpu(0, FULL)])
    screen.close()
    assert "…" not in out.getvalue()
    assert "41.2%" in out.getvalue()
    assert ("H100" in out.getvalue()) == (width == 120)
    assert ("650 W" in out.getvalue()) == (columns == 7)


def test_a_round_in_which_nothing_is_due_is_not_shown() -> None:
    waiting = [gpu(0, {}, {"ofu": NOT_READY})]
    later = replace(gpu(0, FULL), window=Window(20.0, 30.0))
    waiting = [replace(one, window=Window(10.0, 20.0)) for one in waiting]
    assert len(lines([gpu(0, FULL)], waiting, [later])) == 2
    assert "41.2%" in table([gpu(0, FULL)], waiting)


def test_the_table_has_all_gpus_the_reasons_and_the_note() -> None:
    text = table([gpu(0, FULL), gpu(1, {}, {"ofu": NOT_READY})], note="what happens: nothing")
    assert "41.2%" in text
    assert "- OFU of GPU 1: not ready (first sample)" in text
    assert "what happens: nothing" in text
    assert "Ctrl-C to stop" in text


def test_names_are_never_markup() -> None:
    text = table([gpu(0, FULL, more={"hw.model": "[bold]x[/bold]"})])
    assert "[bold]x[/bold]" in text


def test_a_long_table_is_cut_and_says_so() -> None:
    assert "… and 36 more GPUs" in table([gpu(i, FULL) for i in range(100)])
