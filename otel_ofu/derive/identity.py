"""Who a reading is about, as OpenTelemetry attributes (registry.yaml lists them).

Enters: a `Reading`, what the job stage knows of its owner, and what was resolved about the device.
Leaves: the attributes of its entity; one that is not known is absent.
"""

from __future__ import annotations

from collections.abc import Mapping

from otel_ofu.catalog.skus import Sku
from otel_ofu.derive.efficiency import ReferenceClock
from otel_ofu.derive.precision import PrecisionDomain
from otel_ofu.derive.settings import DeriverSettings
from otel_ofu.model import Attribute, Device, Gap, Reading
from otel_ofu.model.reading import MULTIPLEXED

UNKNOWN_SKU = "unknown"


def entity_id(device: Device, owner: Mapping[str, Attribute]) -> str:
    """One entity, and so one resource, for each GPU x job."""
    job = owner.get("ofu.job.id")
    return f"{device.uuid}/{job}" if job else device.uuid


def device_attributes(
    device: Device, sku: Sku | None, settings: DeriverSettings
) -> dict[str, Attribute]:
    """What does not change while the device is there."""
    found: dict[str, Attribute | None] = {
        "host.name": settings.node_name or device.host or settings.host_name,
        "hw.id": device.uuid,
        "hw.name": _name(device),
        "hw.model": device.model,
        "hw.vendor": device.vendor,
        "hw.parent": device.parent,
        "hw.serial_number": device.serial if settings.serial_numbers else None,
        "ofu.gpu.sku": sku.id if sku else UNKNOWN_SKU,
        "ofu.gpu.index": device.index,
        "ofu.gpu.architecture": device.architecture.lower() or (sku.architecture if sku else None),
        "ofu.gpu.pci.address": device.pci_address,
        "ofu.mig.profile": device.mig_profile,
        "ofu.mig.instance.id": device.mig_instance_id,
    }
    return {name: value for name, value in found.items() if value is not None and value != ""}


def states(
    reading: Reading, domain: PrecisionDomain, reference: ReferenceClock | Gap
) -> dict[str, float]:
    """What may change while the entity lives, as metrics that are 1 for what holds now.

    As an attribute it would end the entity's series with every change.
    """
    keys = [f"gpu_source:{reading.source}", f"gpu_precision:{domain.precision}:{domain.source}"]
    if reading.device.driver_version:
        keys.append(f"gpu_driver:{reading.device.driver_version.replace(':', '_')}")
    if reading.quality and reading.quality != MULTIPLEXED:  # which is a method
        keys.append(f"gpu_quality:{reading.quality}")
    if isinstance(reference, ReferenceClock):
        keys.append(f"reference_clock_source:{reference.source}")
    return dict.fromkeys(keys, 1.0)


def _name(device: Device) -> str | None:
    """The device file of NVIDIA's driver; other vendors have none that follows from the index."""
    if device.vendor != "nvidia" or device.index is None:
        return None
    return f"nvidia{device.index}"
