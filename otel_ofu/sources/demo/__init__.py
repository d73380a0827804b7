"""A simulated node of GPUs under a training job, with scripted troubles as physical models.

scenario -> demand -> step (job) -> clock, power, heat (gpu) -> counters -> readings (source).
"""

from otel_ofu.sources.demo.scenario import (
    Change,
    Fact,
    Scenario,
    Spell,
    Trouble,
    load_library,
    named,
)
from otel_ofu.sources.demo.simulation import JobReport
from otel_ofu.sources.demo.source import DemoSource

__all__ = [
    "Change",
    "DemoSource",
    "Fact",
    "JobReport",
    "Scenario",
    "Spell",
    "Trouble",
    "load_library",
    "named",
]
