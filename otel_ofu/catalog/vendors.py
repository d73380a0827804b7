"""vendors.yaml as types: how the page of each GPU exporter is read.

Enters: the YAML file of the package, and the registry. Leaves: `Vendors`, a read-only look-up from
a metric name to the rows that may read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import msgspec

from otel_ofu.catalog.registry import Registry, catalog_file, load_registry
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.model.validation import in_plain_words

Over = Literal["first", "mean", "max", "sum"]
FILE = "vendors.yaml"
OPERAND = "@"
"""Begins a key that is an operand of a ratio or an event, and no registry key."""
INFO = "@info"
"""The key of a row whose labels, and not its value, describe the device."""


class MetricRow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A metric of an exporter -> a registry key; the header of vendors.yaml explains the fields."""

    name: str
    key: str = ""
    bits: dict[str, int] = {}
    scale: float = 1.0
    where: dict[str, list[str]] = {}
    over: Over = "first"
    by: list[str] = []
    least: float = 0.0

    @property
    def keys(self) -> list[str]:
        """The registry keys (and operands) that the row may give."""
        return [*self.bits] if self.bits else [self.key]


class MetricRatio(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`key` = `over` / `under`."""

    key: str
    over: str
    under: str


class IdentityLabels(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For each part of a device's identity the labels that may hold it, best first."""

    uuid: list[str] = []
    index: list[str] = []
    model: list[str] = []
    host: list[str] = []
    pci: list[str] = []
    serial: list[str] = []
    driver: list[str] = []
    instance: list[str] = []
    instance_profile: list[str] = []
    partition: list[str] = []


class ExporterProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One exporter; the header of vendors.yaml explains the fields."""

    title: str
    vendor: str
    ofu: str
    labels: IdentityLabels
    metrics: list[MetricRow]
    needs: dict[str, str]
    quality: Literal["", "busy_proxy", "fixed_clock"] = ""
    refresh_s: float = 0.0
    prefixes: list[str] = msgspec.field(default_factory=lambda: [""])
    dcgm_names: bool = False
    blanks: Literal["", "dcgm"] = ""
    percent_if_above_1: list[str] = []
    ratios: list[MetricRatio] = []
    instance_uuid: Literal["parent", "own"] = "parent"
    instance_keys: list[str] = []
    owner: dict[str, list[str]] = {}
    no_owner: list[str] = []
    uuid_prefix: str = ""
    no_model: str = ""
    last_codes: dict[str, str] = {}


class _VendorsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    relabelled_prefix: str
    mig_slices: dict[str, int]
    profiles: dict[str, Any]


@dataclass(frozen=True, slots=True)
class MetricCandidate:
    """A row that may read a series; the lowest `rank` wins among the rows of one key."""

    profile_id: str
    profile: ExporterProfile
    row: MetricRow
    rank: int


class Vendors:
    """All profiles, and the look-up from a metric name to its candidates."""

    def __init__(
        self,
        profiles: Mapping[str, ExporterProfile],
        registry: Registry,
        relabelled_prefix: str,
        mig_slices: Mapping[str, int],
    ) -> None:
        self.profiles = profiles
        self.relabelled_prefix = relabelled_prefix
        self._mig_slices = mig_slices
        self.candidates = _by_name(profiles, registry)

    def mig_share(self, model: str, mig_profile: str) -> float:
        """The share of the GPU's SMs in (0, 1] of a MIG profile such as `3g.40gb`; 1 if unknown.

        By compute slices, so approximate. Source: NVIDIA MIG user guide, GPU instance profiles.
        """
        match = re.search(r"(?:^|\.)(\d+)g\.", mig_profile)
        if match is None:
            return 1.0
        whole = next(
            (n for part, n in self._mig_slices.items() if part in model),
            self._mig_slices["default"],
        )
        return min(1.0, max(1, int(match[1])) / whole)


def _by_name(
    profiles: Mapping[str, ExporterProfile], registry: Registry
) -> Mapping[str, tuple[MetricCandidate, ...]]:
    found: dict[str, list[MetricCandidate]] = {}
    for profile_id, profile in profiles.items():
        for rank, row in enumerate(_rows(profile, registry)):
            for prefix in profile.prefixes:
                found.setdefault(prefix + row.name, []).append(
                    MetricCandidate(profile_id, profile, row, rank)
                )
    return {name: tuple(rows) for name, rows in found.items()}


def _rows(profile: ExporterProfile, registry: Registry) -> Iterator[MetricRow]:
    if profile.dcgm_names:
        for name, (key, scale) in registry.by_dcgm_name.items():
            yield MetricRow(name=name, key=key, scale=scale)
    yield from profile.metrics


@cache
def load_vendors() -> Vendors:
    """The profiles of this package; parsed once."""
    return vendors_of(catalog_file(FILE), load_registry())


def vendors_of(raw: object, registry: Registry) -> Vendors:
    """The profiles of plain YAML data. Raises ConfigError with every profile that is wrong."""
    problems: list[Problem] = []
    try:
        file = msgspec.convert(raw, _VendorsFile)
    except msgspec.ValidationError as error:
        raise ConfigError([Problem(FILE, 0, 0, in_plain_words(error))]) from error
    profiles: dict[str, ExporterProfile] = {}
    for profile_id, entry in file.profiles.items():
        try:
            profiles[profile_id] = _profile(entry, registry)
        except ValueError as error:
            problems.append(Problem(FILE, 0, 0, f"{profile_id}: {error}"))
    if problems:
        raise ConfigError(problems)
    return Vendors(profiles, registry, file.relabelled_prefix, file.mig_slices)


def _profile(entry: object, registry: Registry) -> ExporterProfile:
    """Raises ValueError."""
    try:
        profile = msgspec.convert(entry, ExporterProfile)
    except msgspec.ValidationError as error:
        raise ValueError(in_plain_words(error)) from error
    for n, row in enumerate(profile.metrics):
        for key in row.keys:
            if not key.startswith(OPERAND) and key.partition(":")[0] not in registry.metrics:
                raise ValueError(f"metrics[{n}].key: no metric {key!r} in registry.yaml")
    return profile
