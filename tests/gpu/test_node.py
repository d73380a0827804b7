"""On a machine with NVIDIA GPUs: what only hardware can show. Skips elsewhere.

`pytest -m gpu -s` prints the scale of the cumulative cycle counters, which NVIDIA doesn't document.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest

from otel_ofu.app.prepare import deriver
from otel_ofu.catalog.registry import load_registry
from otel_ofu.config import Gpu
from otel_ofu.model import Reading
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources.nvml import NvmlSource

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def source() -> Iterator[NvmlSource]:
    opened = NvmlSource(clock=SystemClock())
    try:
        opened.describe()
    except SourceUnavailable as error:
        pytest.skip(f"no NVIDIA GPU here: {error}")
    yield opened
    opened.close()


def two_reads(source: NvmlSource) -> tuple[Sequence[Reading], Sequence[Reading]]:
    first = source.read(0.0)
    threading.Event().wait(1.0)
    return first, source.read(0.0)


def test_every_value_of_the_driver_is_in_its_range(source: NvmlSource) -> None:
    registry = load_registry()
    for reading in two_reads(source)[1]:
        for key, value in reading.values.items():
            assert registry.check(key, value) is None, f"{reading.device.model}: {key} = {value}"


def test_every_gpu_has_a_known_model_and_ofu_or_a_reason(source: NvmlSource) -> None:
    derived = deriver(Gpu(), "")
    for reading in two_reads(source)[1]:
        seen = derived.derive(reading)
        assert seen.entity.attributes["ofu.gpu.sku"] != "unknown", reading.device.model
        assert ("ofu" in seen.values) != ("ofu" in seen.gaps)


def test_cycles_elapse_at_a_whole_multiple_of_the_clock(source: NvmlSource) -> None:
    first, second = two_reads(source)
    for before, after in zip(first, second, strict=True):
        if "sm_cycles_elapsed" not in before.values or "sm_cycles_elapsed" not in after.values:
            pytest.skip("this driver has no cumulative cycle counters (595 and later)")
        cycles = after.values["sm_cycles_elapsed"] - before.values["sm_cycles_elapsed"]
        scale = cycles / (after.values["sm_clock"] * after.window.length_s)
        print(f"{after.device.model}: scale of the cycle counters {scale:.3f}")
        assert scale > 0.5
