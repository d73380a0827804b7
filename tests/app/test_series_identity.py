"""What may change while a GPU runs a job ends none of its series: page, OTLP and store alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.export.prometheus import PageOptions, PrometheusPage
from otel_ofu.model import Observation, Reading, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.reading import MULTIPLEXED
from otel_ofu.store import Store
from tests.derive.readings import BUSY, H100, reading, unknown
from tests.export import samples

OWNER = {"ofu.job.id": "7", "ofu.job.source": "slurm"}
BEFORE = reading(BUSY, owner=OWNER)
MEAN = BUSY | {"sm_clock_mean": 1.5e9, "sm_clock_mean_error": 1e6}
COUNTED = [
    MEAN | {"sm_cycles_elapsed": 1.5e10 * n, "mma_cycles_active": 0.4375 * 1.5e10 * n}
    for n in range(1, 7)
]
INT8 = BUSY | {"tensor_imma_active": 0.4}

FLIPS: dict[str, tuple[Reading, Reading, str]] = {
    "source": (BEFORE, replace(BEFORE, source="dcgm"), "gpu_source"),
    "driver": (
        BEFORE,
        replace(BEFORE, device=replace(H100, driver_version="590.2")),
        "gpu_driver",
    ),
    "clock": (BEFORE, replace(BEFORE, values=MEAN), "ofu_method"),
    "turns": (BEFORE, replace(BEFORE, quality=MULTIPLEXED), "ofu_method"),
    "quality": (BEFORE, replace(BEFORE, quality="fixed_clock"), "gpu_quality"),
    "precision": (BEFORE, replace(BEFORE, values=INT8), "gpu_precision"),
    "reference clock": (
        replace(BEFORE, device=unknown()),
        replace(BEFORE, device=unknown(), quality="fixed_clock"),
        "reference_clock_source",
    ),
}
ROUNDS = 5
"""Of each: a precision is detected after three windows."""


def rounds(before: Reading, after: Reading) -> list[Observation]:
    deriver = Deriver(DeriverSettings())
    found = []
    for n, each in enumerate([before] * ROUNDS + [after] * ROUNDS):
        start_s = samples.START_S + 10 * n
        found.append(deriver.derive(replace(each, window=Window(start_s, start_s + 10))))
    return found


def test_the_way_from_samples_to_counters_is_no_other_series() -> None:
    deriver = Deriver(DeriverSettings())
    found = [
        deriver.derive(reading(values, start_s=samples.START_S + 10 * n, owner=OWNER))
        for n, values in enumerate([BUSY, MEAN, *COUNTED])
    ]
    methods = [seen.state("ofu_method") for seen in found]
    assert methods[:2] == ["end_clock", "mean_clock"]
    assert methods[-1] == "cycles"
    hold(found)


@pytest.mark.parametrize("flip", FLIPS)
def test_a_state_that_changes_is_told_and_the_series_of_ofu_go_on(flip: str) -> None:
    before, after, state = FLIPS[flip]
    found = rounds(before, after)
    assert found[0].state(state) != found[-1].state(state)
    hold(found)


def hold(found: Sequence[Observation]) -> None:
    """One series of OFU, with a value for every round, wherever it goes."""
    assert {o.entity.id for o in found} == {found[0].entity.id}
    over_otlp(found)
    on_the_page(found)
    in_the_store(found)


def over_otlp(found: Sequence[Observation]) -> None:
    encoder = samples.encoder()
    resources, points = set(), []
    for observation in found:
        bodies = encoder.encode([observation])
        resources |= {
            each.resource.SerializeToString(deterministic=True)
            for body in bodies
            for each in samples.request(body).resource_metrics
        }
        points += [
            (point.flags, samples.attributes(point.attributes))
            for _, name, point in samples.points(bodies)
            if name == "ofu.gpu.utilization"
        ]
    assert len(resources) == 1
    assert points == [(0, {"hw.id": H100.uuid})] * len(found)


def on_the_page(found: Sequence[Observation]) -> None:
    page = PrometheusPage(load_registry(), samples.COMMON, PageOptions(10.0))
    heads = set()
    for observation in found:
        page.update([observation])
        lines = page.text(observation.window.end_s).splitlines()
        (line,) = [each for each in lines if each.startswith("ofu_gpu_utilization_ratio{")]
        heads.add(line.rpartition(" ")[0])
    assert len(heads) == 1


def in_the_store(found: Sequence[Observation]) -> None:
    clock = VirtualClock(samples.START_S)
    store = Store(load_registry(), clock=clock)
    for observation in found:
        clock.set(observation.window.end_s)
        store.write([observation])
    assert len(store.entities("gpu")) == 1
    with store.reading():
        block = store.block("gpu", "ofu", samples.START_S, found[-1].window.end_s)
        assert np.isfinite(block.array()[:, 0]).sum() == len(found)


def test_a_value_that_counts_in_another_unit_is_another_series_and_the_old_one_ends() -> None:
    """FLOP of another precision are other FLOP; what they count in stands on their points."""
    encoder = samples.encoder()
    flags: list[tuple[str, int]] = []
    for observation in rounds(*FLIPS["precision"][:2]):
        flags += [
            (str(samples.attributes(point.attributes)["ofu.precision"]), point.flags)
            for _, name, point in samples.points(encoder.encode([observation]))
            if name == "ofu.gpu.flop.rate"
        ]
    first_int8 = flags.index(("int8", 0))
    assert flags[first_int8 - 1] == ("bf16", 1)
    assert set(flags[: first_int8 - 1]) == {("bf16", 0)}
    assert set(flags[first_int8:]) == {("int8", 0)}
