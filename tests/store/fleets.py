"""Short spellings of GPUs and of what was seen of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.store import Retention, Store

START_S = 1_800_000_000.0
STEP_S = 10.0
NAN = float("nan")


def gpu(name: str = "GPU-0", job: str = "", node: str = "n0", sku: str = "h100") -> Entity:
    attributes = {"host.name": node, "ofu.gpu.sku": sku}
    return Entity("gpu", name, attributes | ({"ofu.job.id": job} if job else {}))


def seen(
    entity: Entity,
    at_s: float,
    values: Mapping[str, float],
    *,
    length_s: float = STEP_S,
    starts_s: Mapping[str, float] | None = None,
) -> Observation:
    """What was seen in the `length_s` seconds up to `at_s`; `at_s` counts from START_S."""
    window = Window(START_S + at_s - length_s, START_S + at_s)
    starts = {key: START_S + start for key, start in (starts_s or {}).items()}
    return Observation(entity, window, values, starts_s=starts)


class Bench:
    """A store on a clock that follows what is written."""

    def __init__(
        self,
        retention: Retention | None = None,
        state_dir: Path | None = None,
        step_s: float = STEP_S,
        registry: Registry | None = None,
    ) -> None:
        self.clock = VirtualClock(START_S)
        known = registry or load_registry()
        self.store = Store(known, retention, step_s=step_s, state_dir=state_dir, clock=self.clock)

    def write(self, *observations: Observation) -> None:
        latest = max(o.window.end_s for o in observations)
        self.clock.set(max(self.clock.now_s(), latest))
        self.store.write(observations)

    def rows(self, key: str, window_s: float, at_s: float, column: int = 0) -> list[float]:
        """One GPU's samples in the `window_s` seconds up to `at_s`, as far as they are held."""
        end_s = START_S + at_s
        block = self.store.block("gpu", key, end_s - window_s, end_s)
        return [round(float(value), 4) for value in block.array()[:, column]]

    def minutes(self, key: str, window_s: float, at_s: float) -> tuple[list[float], list[float]]:
        """The first GPU's means of minutes, and of how many samples each is."""
        end_s = START_S + at_s
        block = self.store.minutes("gpu", key, end_s - window_s, end_s)
        counts = np.concatenate(block.counts)[:, 0] if block.counts else np.empty(0)
        return [round(float(v), 4) for v in block.array()[:, 0]], [float(n) for n in counts]
