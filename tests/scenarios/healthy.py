"""A fleet of healthy jobs, lived through with derive, store, rules and causes: its false pages."""

from __future__ import annotations

from collections.abc import Iterator

from otel_ofu.sources.demo import TroubleSpan
from tests.scenarios.story import Story
from tests.scenarios.world import Lived, live

DAY_S = 86_400.0
SIZES = (8, 64, 256)
PHASES = (
    TroubleSpan(trouble="checkpoint", start_s=1200, period_s=1800, share=0.0167),
    TroubleSpan(trouble="evaluation", start_s=2400, period_s=3600, share=0.05),
)


def fleet(gpu_days: float) -> Iterator[Story]:
    """Days of jobs of 8 to 256 GPUs: 2 and 4 % noise, checkpoints, evaluation, lost samples."""
    done, seed = 0.0, 100
    while done < gpu_days:
        gpus = SIZES[seed % len(SIZES)]
        yield Story(
            name=f"healthy-day-{seed}",
            spans=list(PHASES) if seed % 4 else [],
            gpus=gpus,
            noise=0.04 if seed % 2 else 0.02,
            gaps=0.05 if seed % 5 == 0 else 0.0,
            seed=seed,
            quiet=True,
            length_s=DAY_S,
        )
        done += gpus
        seed += 1


def false_pages(gpu_days: float) -> Iterator[Lived]:
    """The days of a healthy fleet, as they were lived."""
    return (live(story) for story in fleet(gpu_days))
