"""The answer of `otel-ofu mfu`: what a token costs, what a run makes of it, how others miscount.

Enters: a breakdown, mistakes, and optionally a run. Leaves: lines of text, or plain data for JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from otel_ofu.catalog.skus import Sku
from otel_ofu.mfu.flops import CommonMistake, FlopsBreakdown
from otel_ofu.mfu.report import TERA, mfu

MAX_TOKENS_PER_S = 1e12  # starting value: above any GPU


def peak_flops(sku: Sku, precision: str) -> float:
    """Our dense peak in FLOP/s. Raises ValueError when the SKU has none in that precision."""
    peak = sku.peak_flops(precision)
    if peak is None:
        allowed = ", ".join(sku.flops_per_clock_per_sm)
        raise ValueError(f"{sku.title} has no tensor peak in {precision}; allowed: {allowed}")
    return peak


@dataclass(frozen=True, slots=True)
class JobRun:
    """What a job does on each GPU, and on which GPUs in which precision.

    Raises ValueError for tokens/s that are not above 0 (up to 1e12), and for a precision in which
    the SKU has no dense peak.
    """

    tokens_per_s_per_gpu: float
    sku: Sku
    precision: str

    def __post_init__(self) -> None:
        if not 0 < self.tokens_per_s_per_gpu <= MAX_TOKENS_PER_S:
            raise ValueError(
                f"tokens/s per GPU are {self.tokens_per_s_per_gpu:g}; "
                f"must be above 0, at most {MAX_TOKENS_PER_S:g}"
            )
        _ = self.peak_flops

    @property
    def peak_flops(self) -> float:
        """Our dense peak in FLOP/s. Raises ValueError when the SKU has none in that precision."""
        return peak_flops(self.sku, self.precision)

    def tflops(self, flops: FlopsBreakdown) -> float:
        """Model TFLOP/s of one GPU in training."""
        return self.tokens_per_s_per_gpu * flops.training / TERA

    def mfu(self, flops: FlopsBreakdown) -> float:
        """MFU in training; errors as `peaks.mfu` and `peak_flops`."""
        return mfu(self.tokens_per_s_per_gpu, flops.training, self.peak_flops)

    def remark(self, flops: FlopsBreakdown) -> str:
        """What is odd about the MFU; empty if nothing is."""
        return "above the peak: check the units" if self.mfu(flops) > 1 else ""


def summary_lines(
    flops: FlopsBreakdown, mistakes: Sequence[CommonMistake], run: JobRun | None = None
) -> list[str]:
    """For people: a table of parts, the run's MFU, and the mistakes with their ratios."""
    return [*_cost(flops), *(_run(flops, run) if run else ()), *_mistakes(mistakes)]


def summary_data(
    flops: FlopsBreakdown, mistakes: Sequence[CommonMistake], run: JobRun | None = None
) -> dict[str, Any]:
    """For machines: FLOPs for one token, parameters, ratios; keys carry their units."""
    data: dict[str, Any] = {
        "model_type": flops.model_type,
        "seq_len": flops.seq_len,
        "masking": flops.masking,
        "params_total": flops.params_total,
        "params_active": flops.params_active,
        "forward_flops_per_token": flops.forward,
        "training_flops_per_token": flops.training,
        "parts": [{"name": p.name, "forward_flops_per_token": p.flops} for p in flops.parts],
        "notes": list(flops.notes),
        "mistakes": [asdict(mistake) for mistake in mistakes],
    }
    if run is not None:
        data["run"] = {
            "tokens_per_s_per_gpu": run.tokens_per_s_per_gpu,
            "tflops_per_gpu": run.tflops(flops),
            "peak_tflops": run.peak_flops / TERA,
            "sku": run.sku.id,
            "precision": run.precision,
            "mfu": run.mfu(flops),
            "remark": run.remark(flops),
        }
    return data


def _cost(flops: FlopsBreakdown) -> Iterator[str]:
    yield f"{flops.model_type}, {flops.seq_len:,.0f} tokens, {flops.masking} attention"
    yield f"parameters           {flops.params_total:>20,}"
    yield f"  met by each token  {flops.params_active:>20,}"
    yield f"training FLOPs/token {flops.training / 1e9:>20,.2f} G"
    for part in flops.parts:
        share = part.flops / flops.forward
        yield f"  {part.name:<18} {3.0 * part.flops / 1e9:>20,.2f} G {share:>7.1%}"
    yield from (f"note: {note}" for note in flops.notes)


def _run(flops: FlopsBreakdown, run: JobRun) -> Iterator[str]:
    yield ""
    yield f"{run.tokens_per_s_per_gpu:,.0f} tokens/s on each {run.sku.title}, {run.precision}"
    rate, peak = run.tflops(flops), run.peak_flops / TERA
    yield f"  {rate:,.1f} TFLOP/s of {peak:,.1f}: MFU {run.mfu(flops):.1%}"
    if remark := run.remark(flops):
        yield f"  {remark}"


def _mistakes(mistakes: Sequence[CommonMistake]) -> Iterator[str]:
    if mistakes:
        yield ""
        yield "MFU comes out wrong by this factor with:"
    for mistake in mistakes:
        yield f"  x {mistake.ratio:<7.3g} {mistake.title}"
