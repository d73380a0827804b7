"""What a job reported of its own speed, and from FLOP/s and a peak to MFU.

MFU = model FLOPs in a second / dense peak of the device in the precision of the matrices. The
`mfu` that a framework reports is often over another peak than ours.
Source: PaLM, arXiv:2204.02311, appendix B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

TERA = 1e12


def mfu(tokens_per_s_per_gpu: float, flops_per_token: float, peak_flops: float) -> float:
    """Tokens/s of one GPU x FLOPs for one token / peak FLOP/s; a ratio, and above 1 when so.

    Raises ValueError for negative or non-finite input and for a peak that is not above 0.
    """
    for name, value in (("tokens/s", tokens_per_s_per_gpu), ("FLOPs per token", flops_per_token)):
        if not math.isfinite(value) or value < 0:
            raise ValueError(f"{name}: {value!r}; allowed: 0 or more")
    if not math.isfinite(peak_flops) or peak_flops <= 0:
        raise ValueError(f"peak: {peak_flops!r} FLOP/s; allowed: above 0")
    return tokens_per_s_per_gpu * flops_per_token / peak_flops


@dataclass(frozen=True, slots=True)
class JobReport:
    """One line of a log, or what it says of one role. None where the line has none.

    At least one figure of speed is there.

    `time_s` is when the line was read (Unix seconds). `tokens_per_s` and `samples_per_s` are the
    whole job's, the `_per_gpu` figures are one GPU's. `mfu` is the framework's own, over the peak
    that it chose, in `precision` where the line says it; `step_s` is seconds for a training step.
    `job` is what the path template of the configuration gives as the job of this log, or empty.
    `role`: of a program that trains in turns (`actor`, `critic`); its MFU holds while it works, not
    for the whole step. `step` is the number of the step, `batch_size` the samples in it.
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
    role: str = ""
    step: int | None = None
    batch_size: int | None = None
    power_w_per_gpu: float | None = None
    precision: str = ""
