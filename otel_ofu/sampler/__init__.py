"""Reading on a schedule: sources in, observations out, gaps where a source fails."""

from otel_ofu.sampler.reader import Answer, Lifecycle, Reader, ThreadReader
from otel_ofu.sampler.round import Meter, Sampler

__all__ = [
    "Answer",
    "Lifecycle",
    "Meter",
    "Reader",
    "Sampler",
    "ThreadReader",
]
