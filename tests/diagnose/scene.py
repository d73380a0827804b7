"""A small store with GPUs of one job, and diagnosers over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from otel_ofu.catalog.registry import load_registry
from otel_ofu.diagnose import CauseCatalogue, Diagnoser, causes_from_text, evaluated_expressions
from otel_ofu.model import (
    Attribute,
    Entity,
    EntityKind,
    Finding,
    FindingChange,
    Observation,
    Window,
)
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.store import Store

REGISTRY = load_registry()
START_S = 1_728_000_000.0
STEP_S = 30.0
Series = Mapping[tuple[str, str], Sequence[float | None]]


def book(text: str) -> CauseCatalogue:
    return causes_from_text(text, REGISTRY)


def cause(id_: str, *evidence: str, **keys: str) -> str:
    """YAML of one cause."""
    more = "".join(f"    {key}: {value}\n" for key, value in keys.items())
    lines = "".join(f"      - {{{line}}}\n" for line in evidence)
    severity = "" if "severity" in keys else "    severity: S4\n"
    return f"  - id: {id_}\n    title: {id_} happened\n{severity}{more}    evidence:\n{lines}"


def causes(*texts: str) -> CauseCatalogue:
    return book("causes:\n" + "".join(texts))


def entity(name: str) -> Entity:
    """`gpu3`, `job` or `node`."""
    kind: EntityKind = "job" if name == "job" else "node" if name == "node" else "gpu"
    attributes: dict[str, Attribute] = {"ofu.job.id": "job", "host.name": "node"}
    if kind == "gpu":
        attributes |= {"hw.id": name, "ofu.gpu.sku": "h100-sxm5"}
    return Entity(kind, name, attributes)


class Scene:
    """Samples every 30 s from the start on; None is a missing sample."""

    def __init__(self, causes: CauseCatalogue, series: Series) -> None:
        length = max(len(samples) for samples in series.values())
        self.now_s = START_S + (length - 1) * STEP_S
        clock = VirtualClock(self.now_s)
        kept = retention_for(evaluated_expressions(causes, REGISTRY), STEP_S)
        self.store = Store(REGISTRY, replace(kept, depth_s=1_800), step_s=STEP_S, clock=clock)
        for n in range(length):
            self._write(n, series)
        self.diagnoser = Diagnoser(causes, NumpyEngine(self.store), self.store, REGISTRY)

    def _write(self, n: int, series: Series) -> None:
        end_s = START_S + n * STEP_S
        values: dict[str, dict[str, float]] = {name: {} for name, _ in series}
        for (name, key), samples in series.items():
            sample = samples[n] if n < len(samples) else None
            if sample is not None:
                values[name][key] = sample
        window = Window(end_s - STEP_S, end_s)
        self.store.write([Observation(entity(n), window, v) for n, v in values.items()])

    def diagnose(self, name: str, *listed: str, kind: FindingChange = "opened") -> Finding:
        return self.diagnoser.diagnose(self.finding(name, *listed, kind=kind))

    def finding(self, name: str, *listed: str, kind: FindingChange = "opened") -> Finding:
        whose = entity(name)
        return Finding(
            kind=kind,
            rule="Low",
            each=whose.kind,
            entity=whose,
            fingerprint=f"Low {name}",
            at_s=self.now_s,
            since_s=self.now_s - 600,
            fired_s=self.now_s,
            severity="warning",
            summary=f"Low on {name}",
            candidates=listed,
        )


def flat(value: float, times: int = 60) -> list[float | None]:
    return [value] * times
