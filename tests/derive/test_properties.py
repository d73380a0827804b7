from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import load_registry
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.derive.efficiency import VECTOR_PIPES
from otel_ofu.model import Device, Gap, GapReason, Observation
from tests.derive.readings import H100, MIG, reading, unknown

REGISTRY = load_registry()
GPU_KEYS = [k for k, m in REGISTRY.metrics.items() if m.entity == "gpu" and not m.labels]
DERIVED = {
    k
    for k, m in REGISTRY.metrics.items()
    if m.derived and m.entity == "gpu" and not m.is_gpu_time and not m.labels
} - {"owner_share"}  # of whoever knows the owners

anything = st.floats() | st.floats(0, 1) | st.sampled_from([2.0**63, 2.0**47, 0.0, 1.0, 1.83e9])
keys = st.sampled_from(
    [*GPU_KEYS, *["tensor_active", "sm_clock", "max_sm_clock", "engine_busy"] * 8, *VECTOR_PIPES]
)
measured = st.dictionaries(keys, anything)
gaps = st.dictionaries(keys, st.builds(Gap, st.sampled_from(GapReason)))
devices = st.sampled_from([H100, MIG, unknown(), Device("Y")])
qualities = st.sampled_from(["", "", "busy_proxy", "fixed_clock"])
settings = st.builds(
    DeriverSettings,
    reference_clock=st.sampled_from(["sku_table", "device_max"]) | st.floats(1, 1e10),
    precision=st.sampled_from(["", "fp8", "mixed"]),
)


@given(
    settings,
    st.lists(st.tuples(measured, gaps, devices, qualities, st.floats(0.1, 100)), max_size=4),
)
def test_whatever_a_source_gives_what_leaves_is_sound(
    chosen: DeriverSettings,
    seen: list[tuple[dict[str, float], dict[str, Gap], Device, str, float]],
) -> None:
    deriver, start_s = Deriver(chosen), 0.0
    for values, missing, device, quality, length_s in seen:
        read = reading(
            values, device, start_s=start_s, length_s=length_s, gaps=missing, quality=quality
        )
        _assert_sound(deriver.derive(read, read if device is MIG else None))
        start_s += length_s


def _assert_sound(observation: Observation) -> None:
    values, missing = observation.values, observation.gaps
    assert not set(values) & set(missing)
    assert set(values) | set(missing) >= DERIVED
    for key, value in values.items():
        assert REGISTRY.check(key, value) is None, key
        assert math.isfinite(value)
        REGISTRY.point_attributes(key)
    reasons = [key for key in values if key.startswith("ofu_gap:")]
    assert reasons == ([f"ofu_gap:{missing['ofu'].reason}"] if "ofu" in missing else [])
    counters = {key for key in values if REGISTRY.metric(key).kind == "counter"}
    begun = set(observation.starts_s)  # of what fell: random counters do
    assert {"flop_count", "flop_capacity"} & set(values) <= begun <= counters


@given(measured, st.sampled_from(["tensor_active", "sm_clock"]))
def test_without_an_input_there_is_no_ofu(values: dict[str, float], missing: str) -> None:
    for key in (missing, "sm_clock_mean"):
        values.pop(key, None)
    observation = Deriver(DeriverSettings()).derive(reading(values))
    assert "ofu" in observation.gaps


@given(st.floats(0, 1), st.floats(0, 1), st.floats(1e6, 1e10), st.floats(1e6, 1e10))
def test_more_activity_or_clock_is_never_less_ofu(
    tensor: float, other: float, clock_hz: float, other_hz: float
) -> None:
    low, high = (
        Deriver(DeriverSettings())
        .derive(reading({"tensor_active": t, "sm_clock": c}))
        .values["ofu"]
        for t, c in (
            (min(tensor, other), min(clock_hz, other_hz)),
            (max(tensor, other), max(clock_hz, other_hz)),
        )
    )
    assert low <= high
