"""What a source reads: devices, and readings of them over a window, with gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from otel_ofu.model.owner import Owner

MULTIPLEXED = "multiplexed"
"""`Reading.quality` of activity that the hardware may have counted for a part of the time only: the
counters that the clients of an engine ask for take turns, and values are extrapolated."""


class GapReason(StrEnum):
    """Why a value is absent. An absent value is never zero, carried forward or clamped."""

    NOT_SUPPORTED = "not_supported"
    NOT_PERMITTED = "not_permitted"
    NOT_READY = "not_ready"
    STALE = "stale"
    OUT_OF_RANGE = "out_of_range"
    IMPLAUSIBLE = "implausible"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Gap:
    """An absent value: the reason, and the words of whoever did not give it."""

    reason: GapReason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Window:
    """The time that a value speaks about, (start, end]; equal ends for an instant."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU or MIG instance, as its driver describes it.

    `uuid` is the identity (`GPU-…`, `MIG-…`, or what the vendor's exporter gives).
    `sm_share` is the part of the parent's SMs that a MIG instance owns, in (0, 1]; 1 otherwise.
    """

    uuid: str
    index: int | None = None
    model: str = ""
    vendor: str = "nvidia"
    pci_address: str = ""
    parent: str = ""
    sm_share: float = 1.0
    mig_profile: str = ""
    mig_instance_id: int | None = None
    serial: str = ""
    driver_version: str = ""
    architecture: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """One device, one read: values by registry key in catalogue units, and the gaps.

    A key is in `values` or in `gaps`, never in both. `owners` are the jobs or pods that
    the source itself reports the device is given to.
    `windows` has the keys of `values` whose time is not `window`: a cumulative counter's own two
    samples, a sample that is older than the read. `quality` is empty for a true tensor measurement,
    or a word such as `busy_proxy` or `multiplexed`.
    """

    device: Device
    window: Window
    source: str
    values: Mapping[str, float]
    gaps: Mapping[str, Gap] = field(default_factory=dict)
    owners: tuple[Owner, ...] = ()
    quality: str = ""
    windows: Mapping[str, Window] = field(default_factory=dict)

    def window_of(self, key: str) -> Window:
        """The time that the value of `key` speaks about."""
        return self.windows.get(key, self.window)
