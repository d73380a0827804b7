"""What jobs report of their speed, in one vocabulary for logs, patterns and metric names.

Enters: a metric's name and unit as received, over OTLP or from Prometheus. Leaves: the
`QuantityConversion` of its values to the unit of the field of a `JobReport` that it fills, or None
for an unknown name. Matching is by whole names: nothing is guessed from parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Literal

import msgspec

from otel_ofu.files.yaml import convert, parse_yaml

Field = Literal[
    "tflops_per_gpu", "mfu", "tokens_per_s", "tokens_per_s_per_gpu", "samples_per_s", "step_s"
]
Quantity = Literal[
    "mfu",
    "mfu_percent",
    "tflops_per_gpu",
    "flops_per_gpu",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "step_s",
    "step_ms",
    "steps_per_s",
]


MOST_MFU = 10.0
"""Starting value: no count is that far off (all experts for the active ones: 9.5 at most)."""


@dataclass(frozen=True, slots=True)
class QuantityConversion:
    """`value x scale` in the unit of `field`, or `scale / value` for a rate that is a time.

    `role`: whose it is, in a job that trains in turns; empty for the whole job's.
    """

    field: Field
    scale: float = 1.0
    inverse: bool = False
    role: str = ""

    def value(self, received: float) -> float | None:
        """In the unit of the field.

        None below 0, by which frameworks mean "unknown", and for an MFU that cannot be, such as a
        percentage that was sent as a ratio.
        """
        if not 0.0 <= received < float("inf"):
            return None
        if self.inverse:
            return self.scale / received if received else None
        value = received * self.scale
        return None if self.field == "mfu" and value > MOST_MFU else value

    def ratio(self, received: float) -> float | None:
        """Of a number that stood before a percent sign and was divided by 100 for it."""
        plain = replace(self, scale=1.0) if self.field == "mfu" else self
        return plain.value(received)


QUANTITIES: Mapping[Quantity, QuantityConversion] = MappingProxyType(
    {
        "mfu": QuantityConversion("mfu"),
        "mfu_percent": QuantityConversion("mfu", 0.01),
        "tflops_per_gpu": QuantityConversion("tflops_per_gpu"),
        "flops_per_gpu": QuantityConversion("tflops_per_gpu", 1e-12),
        "tokens_per_s": QuantityConversion("tokens_per_s"),
        "tokens_per_s_per_gpu": QuantityConversion("tokens_per_s_per_gpu"),
        "samples_per_s": QuantityConversion("samples_per_s"),
        "step_s": QuantityConversion("step_s"),
        "step_ms": QuantityConversion("step_s", 1e-3),
        "steps_per_s": QuantityConversion("step_s", inverse=True),
    }
)


class SeriesName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One meaning and its names; the header of names.yaml explains the fields."""

    is_: Quantity = msgspec.field(name="is")
    names: list[str]
    framework: str = "own"
    exact: bool = False
    role: str = ""


class _NamesFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    prefixes: list[str]
    series: list[SeriesName]


class SeriesNames:
    """Look-up by name; never changes after it was built."""

    def __init__(self, series: Iterable[SeriesName], prefixes: Iterable[str] = ()) -> None:
        self._exact: dict[str, SeriesName] = {}
        self._loose: dict[str, SeriesName] = {}
        self._prefixes = tuple(f"{prefix}_" for prefix in prefixes)
        for one in series:
            for name in one.names:
                self._exact[name] = one
                plain = _plain(name)
                if plain and not one.exact:
                    self._loose[plain] = one

    def recognise(self, name: str, unit: str = "") -> QuantityConversion | None:
        """What `name` means. `unit` (UCUM or text, as received) corrects scale, if it is known."""
        found = self._exact.get(name) or self._find(_plain(name))
        if found is None:
            return None
        return _with_unit(replace(QUANTITIES[found.is_], role=found.role), unit)

    def extended(self, own: Mapping[str, Quantity]) -> SeriesNames:
        """These and a user's `name: quantity`, which win over built-in ones."""
        added = {name: SeriesName(is_=is_, names=[name]) for name, is_ in own.items()}
        other = SeriesNames(added.values())
        other._prefixes = self._prefixes
        other._exact = self._exact | other._exact
        other._loose = self._loose | other._loose
        return other

    def _find(self, plain: str) -> SeriesName | None:
        for prefix in ("", *self._prefixes):
            if plain.startswith(prefix):
                for spelling in _spellings(plain.removeprefix(prefix)):
                    if spelling in self._loose:
                        return self._loose[spelling]
        return None


@cache
def built_in_names() -> SeriesNames:
    """The names of this package; parsed once."""
    text = files("otel_ofu.mfu").joinpath("names.yaml").read_bytes()
    parsed = convert(parse_yaml(text, "names.yaml"), _NamesFile)
    return SeriesNames(parsed.series, parsed.prefixes)


def _plain(name: str) -> str:
    """One spelling for `a.b/c-d (s)` and `A_b_c_d_s`: as Prometheus makes it, in lower case."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower().replace("%", "percent")).strip("_")


# What exporters append to a name: units by which OpenTelemetry's names become Prometheus', types.
_SUFFIXES = ("_ratio", "_percent", "_milliseconds", "_seconds", "_total", "_per_second")


def _spellings(plain: str) -> Iterable[str]:
    yield plain
    for suffix in _SUFFIXES:
        if plain.endswith(suffix):
            yield plain.removesuffix(suffix)


# By field: the factor that a unit asks for. A unit that is not here changes nothing, nor does
# `1`: exporters send it for whatever has no unit of its own, percentages among them.
_UNITS: Mapping[Field, Mapping[str, float]] = {
    "mfu": {"%": 0.01, "percent": 0.01},
    "tflops_per_gpu": {
        "tflop/s": 1.0,
        "tflops": 1.0,
        "gflop/s": 1e-3,
        "flop/s": 1e-12,
        "pflop/s": 1e3,
    },
    "step_s": {
        "s": 1.0,
        "seconds": 1.0,
        "ms": 1e-3,
        "milliseconds": 1e-3,
        "us": 1e-6,
        "ns": 1e-9,
    },
}


def _with_unit(usual: QuantityConversion, unit: str) -> QuantityConversion:
    spelled = re.sub(r"[{}]", "", unit).strip().lower()
    spelled = re.sub(r"/(?:gpu|device)$", "", spelled)
    stated = _UNITS.get(usual.field, {}).get(spelled)
    return usual if stated is None or usual.inverse else replace(usual, scale=stated)
