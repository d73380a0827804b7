"""One generated fleet, for the store and for Prometheus: GPUs of jobs on nodes, with gaps.

All samples lie on the step, as both sides then mean the same by "the last five minutes".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from otel_ofu.catalog.prometheus_names import label_value, metric_name
from otel_ofu.catalog.registry import Metric, Registry, load_registry
from otel_ofu.model import Attribute, Entity, EntityKind, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.model.labels import label_name
from otel_ofu.store import Retention, Store

STEP_S = 10.0
START_S = 1_700_000_000.0  # a multiple of the step

Series = NDArray[np.float64]


@dataclass(frozen=True)
class Fleet:
    """`samples`: metric -> [time, entity] with NaN for missing; entities in the same order."""

    samples: Mapping[EntityKind, Mapping[str, Series]]
    entities: Mapping[EntityKind, Sequence[Entity]]
    steps: int
    registry: Registry

    @property
    def end_s(self) -> float:
        return START_S + (self.steps - 1) * STEP_S

    def store(self, depth_s: float = 3_700.0) -> Store:
        """All of it in a store."""
        store = Store(self.registry, Retention(depth_s), step_s=STEP_S, clock=self._clock())
        columns = {
            kind: store.admit(entities, Window(START_S - STEP_S, START_S))
            for kind, entities in self.entities.items()
        }
        for row in range(self.steps):
            at_s = START_S + row * STEP_S
            for kind, by_key in self.samples.items():
                for key, series in by_key.items():
                    store.write_columns(kind, key, at_s, columns[kind], series[row])
        return store

    def write_openmetrics(self, path: Path) -> None:
        """All of it as samples with timestamps, labelled as the exposition page labels them."""
        with path.open("w") as out:
            for kind, by_key in self.samples.items():
                for key, series in by_key.items():
                    out.writelines(self._lines(kind, key, series))
            out.write("# EOF\n")

    def _clock(self) -> VirtualClock:
        return VirtualClock(self.end_s)

    def _lines(self, kind: EntityKind, key: str, series: Series) -> Iterator[str]:
        metric = self.registry.metric(key)
        name = metric_name(metric.name, metric.unit, metric.kind).metric
        for column, entity in enumerate(self.entities[kind]):
            attributes = labels_of(entity) | self.registry.point_attributes(key)
            labels = ",".join(
                f'{label_name(n)}="{label_value(v)}"' for n, v in sorted(attributes.items())
            )
            head = f"{name}{{{labels}}}"
            values = series[:, column].tolist()
            for row, value in enumerate(values):
                if value == value:  # noqa: PLR0124 - not NaN
                    yield f"{head} {value!r} {int(START_S + row * STEP_S)}\n"


def labels_of(entity: Entity) -> dict[str, Attribute]:
    """The attributes that stand on every series of an entity."""
    names = ("hw.id", "ofu.job.id", "ofu.gpu.sku", "host.name")
    return {name: entity.attributes[name] for name in names if name in entity.attributes}


def gpu(number: int, job: str, sku: str, node: str) -> Entity:
    uuid = f"GPU-{number:05d}"
    known: dict[str, Attribute] = {"hw.id": uuid, "ofu.gpu.sku": sku, "host.name": node}
    if not job:
        return Entity("gpu", uuid, known)
    return Entity("gpu", f"{uuid}/{job}", {**known, "ofu.job.id": job})


def fleet_registry() -> Registry:
    """The registry, and a metric of a job, one of a node, and a flag, as far as it has none."""
    known = load_registry()
    ratio = {"kind": "gauge", "unit": "1", "range": (None, None), "brief": "For tests."}
    extra = {
        "mfu": Metric(name="ofu.job.mfu", entity="job", **ratio),  # type: ignore[arg-type]
        "load": Metric(name="ofu.node.load", entity="node", **ratio),  # type: ignore[arg-type]
        "flag": Metric(name="ofu.gpu.flag", entity="gpu", labels=["ofu.flag"], **ratio),  # type: ignore[arg-type]
    }
    return Registry({**extra, **known.metrics}, known.attributes)


def small_fleet(more: Iterable[str] = (), seed: int = 1, steps: int = 240) -> Fleet:
    """40 GPUs of two models on five nodes under three jobs and none; every kind of hole.

    `more`: metrics to have as well, each of its kind of entity. Values are small multiples of
    powers of two, so that sums are exact and comparisons often meet equality.
    """
    random, registry = np.random.default_rng(seed), fleet_registry()
    jobs = ["a"] * 16 + ["b"] * 14 + ["c"] * 3 + [""] * 7
    skus = ["h100-sxm5" if i % 5 else "a100-sxm4-80gb" for i in range(len(jobs))]
    gpus = [gpu(i, job, skus[i], f"node-{i // 8}") for i, job in enumerate(jobs)]
    entities: dict[EntityKind, Sequence[Entity]] = {
        "gpu": gpus,
        "job": [Entity("job", job, {"ofu.job.id": job}) for job in "abc"],
        "node": [Entity("node", f"node-{i}", {"host.name": f"node-{i}"}) for i in range(5)],
    }
    own: dict[EntityKind, Sequence[str]] = {
        "gpu": ("ofu", "gpu_util", "xid:79", "flag:NCCL_DEBUG"),
        "job": ("mfu",),
        "node": ("load",),
    }
    further = list(more)
    keys: dict[EntityKind, Iterable[str]] = {
        kind: dict.fromkeys(
            [*own[kind], *(k for k in further if registry.metric(k).entity == kind)]
        )
        for kind in entities
    }
    samples = {
        kind: {
            key: _series(random, registry.metric(key), (steps, len(entities[kind])))
            for key in keys[kind]
        }
        for kind in entities
    }
    samples["gpu"]["ofu"][:, 20] = np.nan  # one that never had it
    for column, missing in ((1, 29), (2, 30)):  # the longest gap that still gives an increment
        totals = samples["gpu"]["xid:79"][:, column]
        totals[:] = np.arange(steps)
        totals[steps - 20 - missing : steps - 20] = np.nan
    return Fleet(samples, entities, steps, registry)


def _series(random: np.random.Generator, metric: Metric, shape: tuple[int, int]) -> Series:
    if metric.kind == "counter":
        series = _counter(random, shape)
    else:
        least, most, unit = _RANGES.get(metric.unit, (0, 64, 1 / 64))
        series = _levels(random, (least, most), shape) * unit
        if metric.name == "ofu.gpu.flag":
            series = np.floor(series)
    return _with_holes(random, series)


# Least, most, and what they are multiples of, by unit.
_RANGES = {"Hz": (60, 128, 2.0**24), "W": (100, 700, 1.0), "Cel": (30, 100, 1.0)}


def _levels(random: np.random.Generator, ends: tuple[int, int], shape: tuple[int, int]) -> Series:
    """Whole numbers between two ends: each entity has its level, and another one now and then."""
    rows, columns = shape
    levels = random.integers(ends[0], ends[1] + 1, (rows // 60 + 1, columns))
    noise = random.integers(-(ends[1] - ends[0]) // 16, (ends[1] - ends[0]) // 16 + 1, shape)
    found: Series = np.clip(levels.repeat(60, axis=0)[:rows] + noise, *ends).astype(np.float64)
    return found


def _counter(random: np.random.Generator, shape: tuple[int, int]) -> Series:
    """Small whole increments, mostly none; some fall back to zero."""
    gains = random.integers(0, 4, shape) * (random.random(shape) < 0.3)
    total = np.cumsum(gains, axis=0).astype(np.float64)
    for column in range(0, shape[1], 2):
        at = int(random.integers(5, shape[0]))
        total[at:, column] -= total[at, column] - random.integers(0, 2)
    return total


def _with_holes(random: np.random.Generator, series: Series) -> Series:
    """Missing here and there, at the end, at the start, and for some time in between."""
    series = series.astype(np.float64)
    rows, columns = series.shape
    series[random.random(series.shape) < 0.1] = np.nan
    for column in random.permutation(columns)[: columns // 3]:
        start, length = random.integers(0, rows), random.integers(1, 60)
        series[start : start + length, column] = np.nan
    for column in random.permutation(columns)[: columns // 5]:
        series[rows - random.integers(1, 40) :, column] = np.nan
    for column in random.permutation(columns)[: columns // 5]:
        series[: rows - random.integers(1, 60), column] = np.nan
    return series
