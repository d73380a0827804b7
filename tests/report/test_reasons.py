from __future__ import annotations

import numpy as np
import pytest

from otel_ofu.report.reasons import LEAST_S, judge, peak_reason, unsteady_reason


@pytest.mark.parametrize(
    ("mfu", "ofu", "kind", "first"),
    [
        (0.5427, 0.2558, "over", "experts in a latent space"),  # arXiv:2605.20799
        (0.2451, 0.1556, "over", "Mamba or linear-attention layers"),  # arXiv:2605.20799
        (0.30, 0.40, "normal", "full recomputation"),
        (0.20, 0.40, "under", "a sparse peak as denominator, or multiply-adds"),
        (0.15, 0.40, "under", "a sparse peak as denominator, with recomputation"),
        (1.20, 0.38, "over", "the peak of another GPU"),
        (0.90, 0.45, "over", "FP8 work over a BF16 peak"),
        (0.52, 0.40, "over", "causal attention"),
        (1.60, 0.40, "over", "all experts counted"),
        (0.06, 0.40, "under", "no single known mistake"),
    ],
)
def test_the_ratio_names_the_mistake(mfu: float, ofu: float, kind: str, first: str) -> None:
    verdict = judge(mfu, ofu, 7200.0)
    assert verdict.kind == kind
    assert verdict.reasons[0].startswith(first)


@pytest.mark.parametrize(
    ("mfu", "ofu", "kind"),
    [
        (0.40, 0.41, "normal"),
        (0.07, 0.05, "normal"),  # two points
        (0.03, 0.055, "normal"),
        (0.432, 0.40, "grey"),
        (0.27, 0.40, "grey"),
    ],
)
def test_what_padding_noise_and_clocks_explain_is_not_flagged(
    mfu: float, ofu: float, kind: str
) -> None:
    verdict = judge(mfu, ofu, 7200.0)
    assert verdict.kind == kind
    assert not verdict.flagged


def test_padding_does_not_hide_which_mistake_it_is() -> None:
    """An OFU that holds three percent of padding lowers 2.12 to 2.06, and 2.00 cannot rise."""
    assert judge(2.12 * 0.97 * 0.43, 0.43, 7200.0).reasons[0].startswith("experts in a latent")


def test_a_whole_number_may_be_a_factor_counted_twice() -> None:
    assert judge(1.6, 0.4, 7200.0).reasons[-1].endswith("counted 4 times")


@pytest.mark.parametrize("steps", [3, 4, 5, 8, 12, 16, 64])
@pytest.mark.parametrize("padding", [0.0, 0.03, 0.06])
def test_a_whole_fraction_is_accumulation_steps_that_are_not_counted(
    steps: int, padding: float
) -> None:
    reasons = judge(0.41 / steps * (1 - padding), 0.41, 7200.0).reasons
    assert f"one of {steps} gradient accumulation steps counted (1/{steps})" in reasons


def test_a_half_may_be_a_sparse_peak_or_one_of_two_steps() -> None:
    first, second, *_ = judge(0.2, 0.4, 7200.0).reasons
    assert first.startswith("a sparse peak")
    assert second == "one of 2 gradient accumulation steps counted (1/2)"


@pytest.mark.parametrize("ratio", [0.15, 0.29, 0.6, 0.75, 1.0])
def test_other_fractions_are_no_accumulation(ratio: float) -> None:
    assert "accumulation steps counted (1/" not in " ".join(judge(ratio * 0.4, 0.4, 7200.0).reasons)


def test_less_than_half_an_hour_is_not_judged() -> None:
    assert judge(0.9, 0.3, LEAST_S - 1).kind == "short"
    assert judge(0.9, 0.3, LEAST_S).kind == "over"


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (None, ""),
        (1.0, ""),
        (1.04, ""),
        (0.5, "a sparse peak"),
        (3.17, "the peak of an A100 on H100"),
        (1.111, "the peak of B200 on GB200"),
        (1.5, "not a known peak"),
    ],
)
def test_another_peak_is_named(ratio: float | None, words: str) -> None:
    reason = peak_reason(ratio)
    assert words in reason
    assert bool(reason) == bool(words)


def test_a_ratio_that_changes_on_the_way_is_no_plain_miscount() -> None:
    ofu = np.full(100, 0.4)
    mfu = np.where(np.arange(100) < 80, 0.4, 0.8)
    assert "not steady (1.00 to 2.00)" in unsteady_reason(ofu, mfu)
    assert unsteady_reason(ofu, ofu * 2.12) == ""
    assert unsteady_reason(np.full(3, np.nan), np.full(3, 0.4)) == ""
    assert unsteady_reason(np.zeros(3), np.full(3, 0.4)) == ""
