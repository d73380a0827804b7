from __future__ import annotations

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.model import Device, Gap, GapReason
from tests.derive.readings import BUSY, H100, derive, reading, unknown

REGISTRY = load_registry()
DERIVED = {
    k
    for k, m in REGISTRY.metrics.items()
    if m.derived and m.entity == "gpu" and not m.is_gpu_time and not m.labels
} - {"owner_share"}  # of whoever knows the owners


def test_ofu_is_tensor_activity_times_clock_over_the_clock_of_the_data_sheet() -> None:
    values = derive(reading(BUSY)).values
    assert values["ofu"] == pytest.approx(0.4375 * 1410 / 1830)
    assert values["clock_factor"] == pytest.approx(1410 / 1830)
    assert values["reference_clock"] == 1.83e9
    assert values["ofu_saturated"] == 0


def test_flop_rate_and_limits_follow_from_the_model() -> None:
    values = derive(reading(BUSY)).values
    assert values["flop_rate"] == pytest.approx(0.4375 * 1.41e9 * 132 * 4096)
    assert values["flop_limit"] == pytest.approx(989.4e12, rel=0.001)
    assert values["flop_limit_actual"] == pytest.approx(1.41e9 * 132 * 4096)


def test_ofu_above_one_is_passed_on_and_flagged() -> None:
    values = derive(reading({"tensor_active": 1.0, "sm_clock": 1.98e9})).values
    assert values["ofu"] == pytest.approx(1980 / 1830)
    assert values["ofu_saturated"] == 1


def test_measured_values_pass_through_unchanged() -> None:
    measured = BUSY | {"power": 650.5, "xid:79": 2.0, "energy": 1e15, "temperature": -3.0}
    observation = derive(reading(measured))
    assert {key: observation.values[key] for key in measured} == measured
    assert observation.window == reading(BUSY).window


def test_every_derived_key_is_there_as_a_value_or_as_a_gap() -> None:
    for observation in (derive(reading(BUSY)), derive(reading({}, Device("GPU-zz")))):
        assert set(observation.values) | set(observation.gaps) >= DERIVED


def test_a_derived_key_from_a_source_is_not_believed() -> None:
    observation = derive(reading({"ofu": 0.99, "flop_count": 1.0}, gaps={"clock_factor": _gap()}))
    assert "ofu" not in observation.values
    assert "flop_count" not in observation.values
    assert observation.gaps["clock_factor"].reason is GapReason.NOT_SUPPORTED


@pytest.mark.parametrize("missing", ["tensor_active", "sm_clock"])
@pytest.mark.parametrize("reason", [GapReason.NOT_PERMITTED, GapReason.STALE])
def test_a_missing_input_leaves_ofu_out_with_the_inputs_reason(
    missing: str, reason: GapReason
) -> None:
    values = {key: value for key, value in BUSY.items() if key != missing}
    observation = derive(reading(values, gaps={missing: Gap(reason, "words")}))
    assert observation.gaps["ofu"] == Gap(reason, "words")
    assert observation.values[f"ofu_gap:{reason}"] == 1
    assert not {"ofu", "ofu_saturated", "flop_rate", "flop_count"} & set(observation.values)


def test_the_clock_factor_does_not_need_tensor_activity() -> None:
    assert derive(reading({"sm_clock": 1.83e9})).values["clock_factor"] == 1


def test_there_is_no_ofu_gap_while_ofu_has_a_value() -> None:
    assert not [key for key in derive(reading(BUSY)).values if key.startswith("ofu_gap")]


def test_a_busy_proxy_has_no_ofu() -> None:
    observation = derive(reading({"busy_proxy": 0.9}, quality="busy_proxy"))
    gap = Gap(GapReason.NOT_SUPPORTED, "exporter gives busy time only")
    assert observation.gaps["ofu"] == gap
    assert observation.values["busy_proxy"] == 0.9
    assert observation.state("gpu_quality") == "busy_proxy"
    assert observation.state("ofu_method") == ""


def test_a_fixed_clock_needs_no_clock() -> None:
    tpu = Device("tpu-0", model="tpu-v5p", vendor="google")
    observation = derive(reading({"tensor_active": 0.6}, tpu, quality="fixed_clock"))
    assert observation.values["ofu"] == 0.6
    assert {"clock_factor", "reference_clock", "flop_rate"} <= set(observation.gaps)
    assert observation.state("reference_clock_source") == ""
    assert observation.state("ofu_method") == "fixed_clock"


def test_a_share_of_busy_cycles_is_multiplied_by_the_busy_share() -> None:
    amd = Device("amd-0", model="AMD Instinct MI300X", vendor="amd")
    values = {"tensor_active": 0.5, "engine_busy": 0.4, "sm_clock": 2.1e9, "max_sm_clock": 2.1e9}
    assert derive(reading(values, amd)).values["ofu"] == pytest.approx(0.2)


def test_a_share_of_busy_cycles_without_the_busy_share_is_no_ofu() -> None:
    observation = derive(reading(BUSY, gaps={"engine_busy": Gap(GapReason.FAILED, "why")}))
    assert observation.gaps["ofu"] == Gap(GapReason.FAILED, "why")


class TestReferenceClock:
    def test_comes_from_the_table(self) -> None:
        assert _reference(H100) == (1.83e9, "sku_table")

    def test_of_an_unknown_model_is_the_devices_maximum_and_says_so(self) -> None:
        assert _reference(unknown()) == (1.98e9, "device_max")

    def test_can_be_the_devices_maximum(self) -> None:
        assert _reference(H100, reference_clock="device_max") == (1.98e9, "device_max")
        values = derive(reading(BUSY), reference_clock="device_max").values
        assert values["ofu"] == pytest.approx(0.311553, abs=1e-6)

    def test_can_be_configured(self) -> None:
        assert _reference(unknown(), reference_clock=2e9) == (2e9, "config")

    def test_follows_a_declared_precision(self) -> None:
        assert _reference(H100, precision="fp64") == (1.98e9, "sku_table")

    def test_missing_leaves_ofu_out_and_says_what_is_missing(self) -> None:
        values = {key: value for key, value in BUSY.items() if key != "max_sm_clock"}
        observation = derive(reading(values, unknown()))
        gap = observation.gaps["ofu"]
        assert gap.reason is GapReason.NOT_SUPPORTED
        assert "unknown model" in gap.detail
        assert observation.gaps["reference_clock"] == gap
        assert observation.state("reference_clock_source") == ""

    @pytest.mark.parametrize("clock", [0, 0.5, -1, float("nan"), float("inf"), "max"])
    def test_that_is_none_is_refused(self, clock: float) -> None:
        with pytest.raises(ValueError, match="allowed: sku_table"):
            DeriverSettings(reference_clock=clock)


def _reference(device: Device, **settings: object) -> tuple[object, object]:
    observation = derive(reading(BUSY, device), **settings)
    return observation.values["reference_clock"], observation.state("reference_clock_source")


def test_an_unknown_model_has_ofu_but_no_flop_figures() -> None:
    observation = derive(reading(BUSY, unknown()))
    assert observation.values["ofu"] == pytest.approx(0.311553, abs=1e-6)
    assert observation.entity.attributes["ofu.gpu.sku"] == "unknown"
    for key in ("flop_rate", "flop_limit", "flop_limit_actual", "flop_count", "flop_capacity"):
        assert observation.gaps[key].reason is GapReason.NOT_SUPPORTED


def test_a_format_that_the_model_lacks_has_ofu_but_no_flop_figures() -> None:
    observation = derive(reading(BUSY), precision="fp4")
    assert "ofu" in observation.values
    assert "h100-sxm5 has no dense peak for fp4" in observation.gaps["flop_rate"].detail


@pytest.mark.parametrize(
    ("tensor", "vector", "expected"),
    [(0.0, 0.5, 0), (0.02, 0.5, 0), (0.1, 0.5, 1), (0.0, 0.05, 1), (0.4, 0.3, 1)],
)
@pytest.mark.parametrize("pipe", ["fp64_active", "fp32_active", "fp16_active"])
def test_ofu_applies_unless_vector_pipes_do_the_work(
    tensor: float, vector: float, expected: int, pipe: str
) -> None:
    pipes = {"fp64_active": 0.0, "fp32_active": 0.0, "fp16_active": 0.0} | {pipe: vector}
    values = derive(reading(BUSY | {"tensor_active": tensor} | pipes)).values
    assert values["ofu_applicable"] == expected


def test_applicability_is_not_claimed_without_its_counters() -> None:
    observation = derive(reading(BUSY | {"fp32_active": 0.0, "fp64_active": 0.0}))
    assert "ofu_applicable" not in observation.values
    assert "fp16_active" in observation.gaps["ofu_applicable"].detail
    one = derive(reading({"tensor_active": 0.0, "sm_clock": 1e9, "fp64_active": 0.9}))
    assert one.values["ofu_applicable"] == 0


def test_what_is_retained_goes_on_and_the_rest_begins_again() -> None:
    deriver = Deriver(DeriverSettings())
    for uuid in ("GPU-1", "GPU-2"):
        deriver.derive(reading(BUSY, Device(uuid, model=H100.model)))
    deriver.retain(["GPU-1"])
    starts = [
        deriver.derive(reading(BUSY, Device(uuid, model=H100.model), start_s=10)).starts_s
        for uuid in ("GPU-1", "GPU-2")
    ]
    assert [start["flop_count"] for start in starts] == [0, 10]


def _gap() -> Gap:
    return Gap(GapReason.FAILED)
