"""What the ratio of MFU to OFU means.

Enters: two ratios of a job, and what lies between them. Leaves: whether it is flagged, and the
mistakes that are known to give such a ratio, the likeliest first.

Source: arXiv:2605.20799 (2.12, 1.58, padding, reference clock); the others are arithmetic on peaks
of data sheets (A100 312, H100 989, B200 2250, GB200 2500 TFLOP/s in BF16) or on counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from otel_ofu.report.timeline import Doubles

# Starting values around what correct counts give: padding and recomputation lower MFU / OFU to 0.7.
OVER = 1.10
UNDER = 0.65
GAP = 0.03  # three points: padding to tiles, and noise
NORMAL = (0.70, 1.05)
PADDING = 0.07  # three points of an OFU of 43 %
LEAST_S = 1800.0  # half an hour: a phase is no miscount
SAME_PEAK = 0.05  # printed digits, rounded tables
_PRINTED = 0.02  # digits of a small MFU
UNSTEADY = 1.5  # between the ends of 9 buckets of 10; a miscount is a factor, and stays what it is

Kind = Literal["over", "under", "normal", "grey", "short", "silent", "unseen"]


@dataclass(frozen=True, slots=True)
class KnownMiscount:
    """A known miscount: the range of its ratio, the typical ratio, and what it is."""

    low: float
    high: float
    typical: float
    text: str

    @property
    def factor(self) -> str:
        return f"{self.low:g} to {self.high:g}" if self.wide else f"{self.typical:.2f}"

    def distance(self, ratio: float) -> float:
        """How far a ratio is from what the mistake gives, given that OFU holds padding as well."""
        return max(0.0, ratio - self.typical * 1.005, self.typical * (1.0 - PADDING) - ratio)

    @property
    def wide(self) -> bool:
        return self.high / self.low > 1.35  # noqa: PLR2004 - a band, not one number with noise


MISCOUNTS: Sequence[KnownMiscount] = (
    KnownMiscount(0.32, 0.42, 0.375, "a sparse peak as denominator, with recomputation in OFU"),
    KnownMiscount(
        0.43, 0.55, 0.50, "a sparse peak as denominator, or multiply-adds taken for FLOPs"
    ),
    KnownMiscount(0.55, 0.65, 0.60, "layers that are not counted, or much padding"),
    KnownMiscount(0.70, 0.82, 0.75, "full recomputation, which MFU rightly leaves out"),
    KnownMiscount(
        1.05, 1.13, 1.08, "another reference clock (1980 for 1830 MHz), or B200 for GB200"
    ),
    KnownMiscount(1.10, 1.90, 1.50, "causal attention counted in full"),
    KnownMiscount(1.40, 1.75, 1.58, "Mamba or linear-attention layers counted as attention"),
    KnownMiscount(1.75, 2.08, 2.00, "FP8 work over a BF16 peak: declare the precision"),
    KnownMiscount(1.90, 2.40, 2.12, "experts in a latent space counted at the full hidden size"),
    KnownMiscount(2.60, 3.50, 3.17, "the peak of another GPU (A100 for H100)"),
    KnownMiscount(3.00, 10.0, 5.00, "all experts counted instead of the active ones"),
)

# One of so many gradient accumulation steps counted: beyond 12 neighbours cannot be told apart, and
# powers of two are what people choose.
STEPS: Sequence[int] = (*range(2, 13), 16, 32, 64)

PEAKS: Sequence[KnownMiscount] = (
    KnownMiscount(0.48, 0.52, 0.50, "a sparse peak, or an FP8 peak for BF16 work"),
    KnownMiscount(1.06, 1.095, 1.08, "the highest clock instead of the data sheet's"),
    KnownMiscount(1.095, 1.13, 1.11, "the peak of B200 on GB200"),
    KnownMiscount(1.95, 2.05, 2.00, "a BF16 peak for FP8 work"),
    KnownMiscount(3.10, 3.25, 3.17, "the peak of an A100 on H100"),
)


@dataclass(frozen=True, slots=True)
class MfuAssessment:
    """`kind`: over and under are flagged. `reasons`: sentences, the likeliest first."""

    kind: Kind
    reasons: Sequence[str] = ()

    @property
    def flagged(self) -> bool:
        return self.kind in ("over", "under")


def judge(mfu: float, ofu: float, both_s: float) -> MfuAssessment:
    """`mfu` and `ofu` over the same `both_s` seconds of time, both ratios; OFU above 0."""
    ratio, gap = mfu / ofu, mfu - ofu
    if both_s < LEAST_S:
        return MfuAssessment("short", ("less than half an hour of both",))
    if ratio > OVER and gap > GAP:
        return MfuAssessment("over", likely(ratio))
    if ratio < UNDER and gap < -GAP:
        return MfuAssessment("under", likely(ratio))
    low, high = NORMAL
    kind: Kind = "normal" if low <= ratio <= high or abs(gap) <= GAP else "grey"
    return MfuAssessment(kind, likely(ratio))


def likely(ratio: float) -> tuple[str, ...]:
    """The mistakes whose ratio is near; those with a ratio of their own before bands."""
    near = [m for m in MISCOUNTS if m.low <= ratio <= m.high]
    near.sort(key=lambda m: (m.wide, m.distance(ratio), abs(m.typical - ratio)))
    reasons = [f"{m.text} ({m.factor})" for m in near]
    reasons += _uncounted_steps(ratio)
    if abs(ratio - round(ratio)) <= 0.03 * ratio and ratio > 1.5:  # noqa: PLR2004 - 3 % of noise
        whole = round(ratio)
        reasons.append(f"world size, micro-batches or accumulation counted {whole} times")
    if not reasons and (ratio > OVER or ratio < UNDER):
        reasons.append("no single known mistake gives this ratio; several may be combined")
    return tuple(reasons)


def _uncounted_steps(ratio: float) -> list[str]:
    """A sentence when the ratio is 1/n, given that OFU holds padding as well."""
    near = [n for n in STEPS if 1.0 - PADDING <= ratio * n <= 1.0 + _PRINTED]
    near.sort(key=lambda n: abs(ratio * n - 1.0))
    return [f"one of {n} gradient accumulation steps counted (1/{n})" for n in near[:1]]


def peak_reason(peak_ratio: float | None) -> str:
    """A sentence when the MFU that a job prints is over another peak than ours; else empty.

    `peak_ratio`: printed MFU / MFU over our peak.
    """
    if peak_ratio is None or abs(peak_ratio - 1.0) <= SAME_PEAK:
        return ""
    known = next((p.text for p in PEAKS if p.low <= peak_ratio <= p.high), "not a known peak")
    return f"the MFU that it prints is {peak_ratio:.2f} times that over our peak: {known}"


def unsteady_reason(ofu: Doubles, mfu: Doubles) -> str:
    """A sentence when the ratio changed on the way; else empty. Buckets without either are NaN."""
    both = (ofu > 0) & (mfu > 0)
    if not both.any():
        return ""
    low, high = np.quantile(mfu[both] / ofu[both], (0.05, 0.95)).tolist()
    if high / low < UNSTEADY:
        return ""
    return f"the ratio is not steady ({low:.2f} to {high:.2f}): the job or its count changed"
