"""OpenTelemetry names and units as Prometheus spells them, and the escapes of its text format.

Source: OpenTelemetry specification, compatibility/prometheus_and_openmetrics.md, and the
otlptranslator of Prometheus, whose names the OTLP receivers of Prometheus and Mimir give.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from otel_ofu.catalog.registry import Kind
from otel_ofu.model.labels import label_text

_UNITS = {
    "": "",
    "1": "",
    "%": "percent",
    "By": "bytes",
    "Cel": "celsius",
    "Hz": "hertz",
    "J": "joules",
    "W": "watts",
    "V": "volts",
    "A": "amperes",
    "s": "seconds",
    "ms": "milliseconds",
    "min": "minutes",
    "h": "hours",
    "d": "days",
}
_PER = {"s": "second", "m": "minute", "min": "minute", "h": "hour", "d": "day"}
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9]+")


class PrometheusName(NamedTuple):
    """A metric's name with its suffixes; `unit` is the part of it that is the unit, or empty."""

    metric: str
    unit: str


def metric_name(name: str, unit: str, kind: Kind) -> PrometheusName:
    """`hw.energy`, `J`, counter: `hw_energy_joules_total` with the unit `joules`."""
    tokens = [t for t in _NOT_IN_NAMES.split(name) if t]
    suffix = "ratio" if unit == "1" and kind == "gauge" else ""
    added = [t for t in _unit_tokens(unit) if t not in tokens] or ([suffix] if suffix else [])
    tokens = [t for t in tokens if t != suffix] + added
    if kind == "counter":
        tokens = [t for t in tokens if t != "total"] + ["total"]
    joined = "_".join(tokens)
    return PrometheusName(f"_{joined}" if joined[:1].isdigit() else joined, "_".join(added))


def label_value(value: object) -> str:
    """Escaped, without the quotes."""
    return label_text(value).replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def help_text(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _unit_tokens(unit: str) -> list[str]:
    """A unit in braces is a remark and not a unit."""
    main, _, per = (part.strip() for part in unit.partition("/"))
    tokens = [] if "{" in main else [_clean(_UNITS.get(main, main))]
    if per and "{" not in per:
        tokens += ["per", _clean(_PER.get(per, per))]
    return [t for t in tokens if t]


def _clean(unit: str) -> str:
    return _NOT_IN_NAMES.sub("_", unit).strip("_")
