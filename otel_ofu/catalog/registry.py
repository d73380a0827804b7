"""registry.yaml as types: every metric and attribute that the program may emit.

Enters: the YAML file of the package. Leaves: `Registry`, a read-only look-up by key, by GPM id,
by DCGM field id and by dcgm-exporter name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec
import yaml

from otel_ofu.model import EntityKind, Gap, GapReason

Kind = Literal["gauge", "counter", "updown", "histogram"]

GPU_TIME = "ofu.gpu.time."


class GpmId(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An NVML GPM metric id, and the factor to the registry's unit."""

    id: int
    scale: float


class DcgmId(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A DCGM field id and factor; `names`: spelling in dcgm-exporter -> its factor."""

    id: int
    scale: float
    names: dict[str, float]


class Metric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the registry; the header of registry.yaml explains the fields."""

    name: str
    entity: EntityKind | Literal["agent"]
    kind: Kind
    unit: str
    range: tuple[float | None, float | None]
    brief: str
    typical: tuple[float | None, float | None] | None = None
    attributes: dict[str, str] = {}
    labels: list[str] = []
    label_prefix: str = ""
    label_pattern: str = ""
    points_with: list[str] = []
    derived: bool = False
    stability: str = "development"
    gpm: GpmId | None = None
    dcgm: DcgmId | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether a series appears with its first event: errors that are counted by their kind."""
        return self.kind == "counter" and "error.type" in self.labels

    @property
    def is_gpu_time(self) -> bool:
        """Whether it is cumulative time of a GPU with a job, of which totals of jobs are sums."""
        return self.kind == "counter" and self.entity == "gpu" and self.name.startswith(GPU_TIME)

    def check(self, value: float) -> Gap | None:
        """The gap that stands in place of `value` if it is no possible value, else None."""
        low, high = self.range
        if (
            math.isfinite(value)
            and (low is None or value >= low)
            and (high is None or value <= high)
        ):
            return None
        return Gap(GapReason.OUT_OF_RANGE, f"{self._shown(value)}; allowed: {self._allowed()}")

    def _shown(self, value: float) -> str:
        """Ratios and counts (`1`, `{event}`) without their unit."""
        plain = self.unit == "1" or self.unit.startswith("{")
        return f"{value:g}" if plain else f"{value:g} {self.unit}"

    def _allowed(self) -> str:
        low, high = self.range
        if high is None:
            return "any number" if low is None else f"{low:g} or more"
        return f"up to {high:g}" if low is None else f"{low:g} to {high:g}"


class AttributeDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attribute; `where`: it stands on the resource, on points, or on both."""

    type: Literal["string", "int", "double", "boolean"]
    where: Literal["resource", "point", "both"]
    stability: str
    brief: str
    values: list[str] = []


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    metrics: dict[str, Metric]
    attributes: dict[str, AttributeDefinition]


class Registry:
    """Look-up over registry.yaml; never changes after it was built."""

    def __init__(
        self, metrics: Mapping[str, Metric], attributes: Mapping[str, AttributeDefinition]
    ) -> None:
        self.metrics = metrics
        self.attributes = attributes
        self.by_gpm_id = {m.gpm.id: key for key, m in metrics.items() if m.gpm}
        self.by_dcgm_id = {m.dcgm.id: key for key, m in metrics.items() if m.dcgm}
        self.by_dcgm_name = {
            name: (key, scale)
            for key, m in metrics.items()
            if m.dcgm
            for name, scale in m.dcgm.names.items()
        }

    def metric(self, key: str) -> Metric:
        """The metric of a key; `xid:79` gives that of `xid`. KeyError if there is none."""
        return self.metrics[key.partition(":")[0]]

    def point_attributes(self, key: str) -> dict[str, str]:
        """The attributes that the key alone puts on a point: `xid:79` -> error.type=xid_79."""
        base, _, rest = key.partition(":")
        metric = self.metrics[base]
        labels = rest.split(":") if rest else []
        return metric.attributes | {
            name: metric.label_prefix + value
            for name, value in zip(metric.labels, labels, strict=True)
        }

    def check(self, key: str, value: float) -> Gap | None:
        """The gap that stands in place of a value out of the key's range, else None."""
        return self.metric(key).check(value)


@cache
def load_registry() -> Registry:
    """The registry of this package; parsed once."""
    parsed = msgspec.convert(catalog_file("registry.yaml"), _File)
    return Registry(parsed.metrics, parsed.attributes)


def catalog_file(name: str) -> object:
    """What a YAML file of this folder holds."""
    text = files("otel_ofu.catalog").joinpath(name).read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # noqa: S506 - safe loaders
