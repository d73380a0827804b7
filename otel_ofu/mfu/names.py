"""Metric names of training jobs -> what they mean, for OTLP and for Prometheus.

Enters: a metric's name and unit as received. Leaves: a `JobSeries` that converts its values, or
None for a name that is not known. Matching is by whole names: nothing is guessed from parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

import msgspec

from otel_ofu.files.yaml import convert, parse_yaml
from otel_ofu.mfu.quantities import QUANTITIES, Conversion, Field, Quantity


@dataclass(frozen=True, slots=True)
class JobSeries:
    """What a metric of a job means: the field it fills, and the way into that field's unit."""

    field: Field
    conversion: Conversion
    framework: str

    def value(self, received: float) -> float | None:
        """In the unit of the field; None for what frameworks send when they do not know."""
        return self.conversion.apply(received)


class SeriesName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One meaning and its names; the header of names.yaml explains the fields."""

    is_: Quantity = msgspec.field(name="is")
    names: list[str]
    framework: str = "own"
    exact: bool = False


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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

    def recognise(self, name: str, unit: str = "") -> JobSeries | None:
        """What `name` means. `unit` (UCUM or words, as received) corrects scale, if it is known."""
        found = self._exact.get(name) or self._find(_plain(name))
        return None if found is None else _with_unit(found, unit)

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
    parsed = convert(parse_yaml(text, "names.yaml"), _File)
    return SeriesNames(parsed.series, parsed.prefixes)


def recognise(name: str, unit: str = "") -> JobSeries | None:
    """What a metric of a training job means by the built-in names, or None."""
    return built_in_names().recognise(name, unit)


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


_PERCENT = Conversion("mfu", 0.01)
# By field: the factor that a unit asks for. A unit that is not here changes nothing, nor does
# `1`: exporters send it for whatever has no unit of its own, percentages among them.
_UNITS: Mapping[Field, Mapping[str, Conversion]] = {
    "mfu": {"%": _PERCENT, "percent": _PERCENT},
    "tflops_per_gpu": {
        "tflop/s": Conversion("tflops_per_gpu"),
        "tflops": Conversion("tflops_per_gpu"),
        "gflop/s": Conversion("tflops_per_gpu", 1e-3),
        "flop/s": Conversion("tflops_per_gpu", 1e-12),
        "pflop/s": Conversion("tflops_per_gpu", 1e3),
    },
    "step_s": {
        "s": Conversion("step_s"),
        "seconds": Conversion("step_s"),
        "ms": Conversion("step_s", 1e-3),
        "milliseconds": Conversion("step_s", 1e-3),
        "us": Conversion("step_s", 1e-6),
        "ns": Conversion("step_s", 1e-9),
    },
}


def _with_unit(found: SeriesName, unit: str) -> JobSeries:
    usual = QUANTITIES[found.is_]
    series = JobSeries(usual.field, usual, found.framework)
    spelled = re.sub(r"[{}]", "", unit).strip().lower()
    spelled = re.sub(r"/(?:gpu|device)$", "", spelled)
    stated = _UNITS.get(usual.field, {}).get(spelled)
    return series if stated is None or usual.inverse else replace(series, conversion=stated)
