"""What a user may say about the simulated node: the block `receivers.gpu.demo`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from otel_ofu.files.settings import CheckContext, Mistake, QuantityRange, Settings
from otel_ofu.model.errors import ConfigError

MOST_GPUS = 10_000
"""Starting value: a large fleet, which a laptop simulates faster than it happens."""
LARGEST_SEED = 2**63 - 1
"""NumPy takes larger ones; YAML integers beyond are a slip of the keyboard."""


class DemoSettings(Settings, frozen=True, kw_only=True):
    """`scenario`: a name of scenarios.yaml. The same `seed` gives the same numbers."""

    scenario: str = "tour"
    seed: Annotated[int, QuantityRange(0, LARGEST_SEED)] = 1
    gpus: Annotated[int, QuantityRange(1, MOST_GPUS)] = 8

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - scenarios alone
        default = DemoSettings()
        if (self.scenario, self.gpus) == (default.scenario, default.gpus) or self.gpus < 1:
            return
        from otel_ofu.sources.demo.scenario import (  # noqa: PLC0415 - NumPy
            ScenarioTimeline,
            load_library,
            named,
        )

        try:
            scenario = named(self.scenario)
        except ConfigError as error:
            yield ("scenario",), error.problems[0].message
            return
        try:
            ScenarioTimeline(scenario, self.gpus, load_library().troubles)
        except ConfigError as error:
            most = max(gpu for span in scenario.spans for gpu in span.gpus or (0,)) + 1
            why = f"scenario {self.scenario!r} needs at least {most}"
            yield ("gpus",), f"{self.gpus} GPUs: {why}" if error.problems else str(error)
