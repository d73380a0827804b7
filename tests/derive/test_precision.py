from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.derive.precision import PrecisionDetector, PrecisionDomain, declared, indicated
from otel_ofu.model import Observation
from tests.derive.readings import BUSY, H100, derive, reading, unknown

HMMA = {"tensor_hmma_active": 0.4}
IMMA = {"tensor_imma_active": 0.4}
DFMA = {"tensor_dfma_active": 0.4}


def _attributes(*windows: dict[str, float]) -> list[tuple[str, str]]:
    deriver = Deriver(DeriverSettings())
    seen = [deriver.derive(reading(BUSY | w, start_s=10 * i)) for i, w in enumerate(windows)]
    return [_domain(observation) for observation in seen]


def _domain(seen: Observation) -> tuple[str, str]:
    precision, _, source = seen.state("gpu_precision").partition(":")
    assert seen.point_attributes == {"ofu.precision": precision}
    assert seen.entity.attributes.get("ofu.precision") == (
        precision if source == "declared" else None
    )
    return precision, source


def test_nothing_known_is_the_models_default_and_says_so() -> None:
    assert _attributes({}, HMMA, HMMA, HMMA)[-1] == ("bf16", "default")


@pytest.mark.parametrize(
    ("model", "precision"), [("Tesla V100-SXM2-32GB", "fp16"), ("Tesla T4", "fp16")]
)
def test_models_without_bf16_default_to_fp16(model: str, precision: str) -> None:
    observation = derive(reading(BUSY, replace(H100, model=model)))
    assert _domain(observation) == (precision, "default")
    assert "flop_rate" in observation.values


def test_an_unknown_model_has_no_default() -> None:
    assert _domain(derive(reading(BUSY, unknown()))) == ("unknown", "default")


@pytest.mark.parametrize(("pipe", "precision"), [(IMMA, "int8"), (DFMA, "fp64")])
def test_a_pipe_of_its_own_tells_the_format_after_three_windows(
    pipe: dict[str, float], precision: str
) -> None:
    seen = _attributes(pipe, pipe, pipe)
    assert seen == [("bf16", "default"), ("bf16", "default"), (precision, "detected")]


def test_one_other_window_does_not_switch() -> None:
    assert _attributes(IMMA, IMMA, IMMA, HMMA, IMMA, HMMA, HMMA)[-1] == ("int8", "detected")


def test_three_other_windows_switch_back() -> None:
    assert _attributes(IMMA, IMMA, IMMA, HMMA, HMMA, HMMA)[-1] == ("bf16", "default")


def test_idle_and_mixed_windows_change_nothing() -> None:
    idle, mixed = {"tensor_imma_active": 0.001}, {**HMMA, **IMMA}
    assert _attributes(IMMA, idle, IMMA, mixed, IMMA, idle, {})[-1] == ("int8", "detected")


def test_the_config_declares() -> None:
    observation = derive(reading(BUSY | IMMA), precision="fp8")
    assert _domain(observation) == ("fp8", "declared")
    assert observation.values["flop_limit"] == pytest.approx(1979e12, rel=0.001)


def test_a_job_outranks_the_config_and_the_job_stage_outranks_the_source() -> None:
    deriver = Deriver(DeriverSettings(precision="fp8"))
    read = reading(BUSY, owner={"ofu.precision": "tf32"})
    assert deriver.derive(read).entity.attributes["ofu.precision"] == "tf32"
    observation = deriver.derive(read, owner={"ofu.precision": " BF16 "})
    assert observation.entity.attributes["ofu.precision"] == "bf16"


@pytest.mark.parametrize("word", ["mixed", "fp7", "bfloat"])
def test_a_domain_without_a_peak_leaves_flop_figures_out(word: str) -> None:
    observation = derive(reading(BUSY, owner={"ofu.precision": word}))
    assert _domain(observation) in (("mixed", "declared"), ("unknown", "declared"))
    assert "ofu" in observation.values
    assert "flop_rate" in observation.gaps


@given(st.text())
def test_a_declared_word_is_allowed_or_unknown(word: str) -> None:
    domain = declared(word)
    assert domain.precision == word.strip().lower() or domain.precision == "unknown"


shares = st.dictionaries(st.sampled_from([*HMMA, *IMMA, *DFMA, "tensor_active"]), st.floats(0, 1))


@given(st.lists(shares, max_size=20))
def test_fp16_and_fp8_are_never_detected(windows: list[dict[str, float]]) -> None:
    detector = PrecisionDetector()
    for values in windows:
        domain = detector.observe(values, "bf16")
        assert domain == PrecisionDomain("bf16", "default") or domain.precision in ("int8", "fp64")
        assert indicated(values) in (None, "", "int8", "fp64")


def test_a_pipe_that_leads_narrowly_tells_nothing() -> None:
    close = {"tensor_hmma_active": 0.40, "tensor_imma_active": 0.41}
    assert _attributes(close, close, close, close)[-1] == ("bf16", "default")
