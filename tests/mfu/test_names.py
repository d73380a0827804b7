"""Metric names of jobs: recognised as a whole, in their units, in both spellings."""

from __future__ import annotations

import pytest

from otel_ofu.mfu import built_in_names

recognise = built_in_names().recognise


@pytest.mark.parametrize(
    ("name", "unit", "received", "field", "value"),
    [
        ("megatron.training.throughput_tflops", "TFLOP/s", 401.2, "tflops_per_gpu", 401.2),
        ("megatron_training_throughput_tflops", "", 401.2, "tflops_per_gpu", 401.2),
        ("megatron.training.tokens_per_sec", "tokens/s", 1e6, "tokens_per_s", 1e6),
        ("megatron.training.step_duration_ms", "ms", 5000, "step_s", 5.0),
        ("megatron_training_step_duration_ms_milliseconds", "", 5000, "step_s", 5.0),
        ("ml.training.mfu", "1", 0.41, "mfu", 0.41),
        ("ml.training.mfu", "%", 41.0, "mfu", 0.41),
        ("ml_training_mfu_ratio", "", 0.41, "mfu", 0.41),
        ("ml.training.model_flops_per_second", "{flop}/s", 4e14, "tflops_per_gpu", 400.0),
        ("ml.training.model_flops_per_second", "TFLOP/s/GPU", 400, "tflops_per_gpu", 400.0),
        ("mfu(%)", "1", 41.0, "mfu", 0.41),
        ("throughput(tps)", "", 7123, "tokens_per_s_per_gpu", 7123),
        ("throughput/tflops/device", "", 412.0, "tflops_per_gpu", 412.0),
        ("train/throughput/device/flops_per_sec", "", 4e14, "tflops_per_gpu", 400.0),
        ("throughput/device/mfu", "", 0.41, "mfu", 0.41),
        ("throughput/device/MFU", "", 41.0, "mfu", 0.41),
        ("perf/step_time_seconds", "", 2.5, "step_s", 2.5),
        ("perf_step_time_seconds", "", 2.5, "step_s", 2.5),
        ("train_device_mfu", "", 0.3, "mfu", 0.3),
    ],
)
def test_a_name_is_converted(
    name: str, unit: str, received: float, field: str, value: float
) -> None:
    series = recognise(name, unit)
    assert series is not None
    assert series.field == field
    assert series.value(received) == pytest.approx(value)


def test_an_mfu_that_cannot_be_is_none() -> None:
    series = recognise("ml.training.mfu")
    assert series is not None
    assert (series.value(9.5), series.value(41.71)) == (9.5, None)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "mfu",
        "tflops",
        "megatron.training.loss",
        "my.megatron.training.throughput_tflops",
        "megatron.training.throughput_tflops.extra",
        # Two frameworks spell it alike for a ratio and for percent: in lower case nobody knows.
        "throughput_device_mfu",
        "m" * 100_000,
    ],
)
def test_other_names_are_not_guessed_at(name: str) -> None:
    assert recognise(name) is None


@pytest.mark.parametrize("received", [-1.0, -100.0, float("nan"), float("inf")])
def test_what_stands_for_not_known_is_no_value(received: float) -> None:
    series = recognise("mfu(%)")
    assert series is not None
    assert series.value(received) is None


def test_own_names_are_added_and_win() -> None:
    own = {"acme/util": "mfu_percent", "throughput/device/mfu": "mfu_percent", "???": "mfu"}
    names = built_in_names().extended(own)  # type: ignore[arg-type]
    for name in ("acme/util", "acme_util", "train/acme/util"):
        series = names.recognise(name)
        assert series is not None
        assert series.value(50.0) == 0.5
    won = names.recognise("throughput/device/mfu")
    assert won is not None
    assert won.value(50.0) == 0.5
    assert names.recognise("!!") is None
    assert names.recognise("megatron.training.throughput_tflops") is not None
    assert recognise("acme/util") is None


def test_a_rate_of_steps_becomes_the_time_of_one() -> None:
    series = built_in_names().extended({"steps": "steps_per_s"}).recognise("steps")
    assert series is not None
    assert series.value(4.0) == 0.25
    assert series.value(0.0) is None
