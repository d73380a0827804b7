"""Readings to derive from, one call each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.model import Device, Gap, Observation, Owner, Reading, Window

H100 = Device(
    "GPU-aa",
    index=3,
    model="NVIDIA H100 80GB HBM3",
    pci_address="00000000:1B:00.0",
    driver_version="580.1",
    serial="165",
    host="node1",
)
MIG = Device(
    "MIG-bb",
    index=3,
    model="NVIDIA H100 80GB HBM3 MIG 2g.20gb",
    parent="GPU-aa",
    sm_share=0.25,
    mig_profile="2g.20gb",
    mig_instance_id=5,
)
BUSY = {"tensor_active": 0.4375, "sm_clock": 1.41e9, "max_sm_clock": 1.98e9}


def reading(
    values: Mapping[str, float],
    device: Device = H100,
    *,
    start_s: float = 0.0,
    length_s: float = 10.0,
    gaps: Mapping[str, Gap] | None = None,
    owner: Mapping[str, str] | None = None,
    quality: str = "",
) -> Reading:
    window = Window(start_s, start_s + length_s)
    owners = (Owner(owner),) if owner else ()
    return Reading(device, window, "nvml", values, gaps or {}, owners, quality)


def unknown(device: Device = H100) -> Device:
    return replace(device, model="NVIDIA X9000")


def derive(read: Reading, **settings: object) -> Observation:
    return Deriver(DeriverSettings(**settings)).derive(read)  # type: ignore[arg-type]
