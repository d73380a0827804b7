"""What a job said of its own speed, once."""

from __future__ import annotations

from dataclasses import dataclass

from otel_ofu.mfu.peaks import reported_peak


@dataclass(frozen=True, slots=True)
class JobReport:
    """One line of a log. None where the line does not say; at least one figure is there.

    `time_s` is when the line was read (Unix seconds). `tokens_per_s` and `samples_per_s` are the
    whole job's, the `_per_gpu` figures are one GPU's. `mfu` is the framework's own, over the peak
    that it chose; `step_s` is seconds for a training step. `job` is what the path template of the
    configuration says of whose log this is, or empty.
    """

    time_s: float
    source: str
    framework: str
    line_number: int
    tflops_per_gpu: float | None = None
    mfu: float | None = None
    tokens_per_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    samples_per_s: float | None = None
    step_s: float | None = None
    job: str = ""

    @property
    def reported_peak(self) -> float | None:
        """The peak in FLOP/s that the framework divided by, where both figures are given."""
        return reported_peak(self.tflops_per_gpu, self.mfu)
