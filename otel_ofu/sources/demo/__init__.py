"""A simulated node of GPUs under a training job, with scripted troubles as physical models.

scenario -> demand -> step (job) -> clock, power, heat (gpu) -> counters -> readings (source).
"""

from otel_ofu.sources.demo.scenario import (
    QuantityChange,
    Scenario,
    ScenarioTrouble,
    TroubleFact,
    TroubleSpan,
    load_library,
    named,
)
from otel_ofu.sources.demo.simulation import DemoReport
from otel_ofu.sources.demo.source import DemoSource

__all__ = [
    "DemoReport",
    "DemoSource",
    "QuantityChange",
    "Scenario",
    "ScenarioTrouble",
    "TroubleFact",
    "TroubleSpan",
    "load_library",
    "named",
]
