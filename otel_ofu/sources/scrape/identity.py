"""Which device a series speaks about.

Enters: the labels of a series and the profile of its exporter. Leaves: a `Slot`, the key under
which the series of one device meet, and the `Device` itself.

MIG: the exporter repeats what it knows of the whole GPU for each instance. Such values belong to
the GPU, or the power of a GPU with seven instances counts seven times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from otel_ofu.catalog.vendors import Profile, Vendors
from otel_ofu.model import Device

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Slot:
    """A device of one exporter: `base` is the GPU, `instance` the MIG instance or partition."""

    profile_id: str
    host: str
    base: str
    instance: str = ""

    @property
    def whole(self) -> Slot:
        """The slot of the GPU that the instance is a part of."""
        return replace(self, instance="")


def label(labels: Labels, names: list[str]) -> str:
    """The first of `names` that has a value; DCGM's `<<<...>>>` are none."""
    found = (labels.get(name, "") for name in names)
    return next((value for value in found if value and not value.startswith("<<<")), "")


def slot_of(profile_id: str, profile: Profile, labels: Labels) -> Slot | None:
    """The device's slot; None if the labels name no device."""
    names = profile.labels
    uuid, index = label(labels, names.uuid), label(labels, names.index)
    own_uuid = profile.instance_uuid == "own"
    base = (index or uuid) if own_uuid else (uuid or index)
    if not base:
        return None
    partition = label(labels, names.partition)
    instance = label(labels, names.instance) or (partition if partition != "0" else "")
    return Slot(profile_id, label(labels, names.host), base, instance)


def device_of(
    slot: Slot, vendors: Vendors, labels: Labels, whole_uuid: str, endpoint_host: str
) -> Device:
    """The device of a slot; `whole_uuid` is its GPU's identity, for an instance or partition."""
    profile = vendors.profiles[slot.profile_id]
    names = profile.labels
    # The driver's name of a MIG device is `<model> MIG <profile>`.
    model, _, named_profile = label(labels, names.model).partition(" MIG ")
    mig_profile = label(labels, names.instance_profile) or named_profile
    index = label(labels, names.index)
    is_mig = bool(slot.instance) and bool(names.instance)
    device = Device(
        uuid=_uuid(slot, profile, labels, whole_uuid, endpoint_host),
        index=int(index) if index.isdecimal() else None,
        model=model,
        vendor=profile.vendor,
        pci_address=label(labels, names.pci),
        serial=label(labels, names.serial),
        driver_version=label(labels, names.driver),
        host=slot.host,
    )
    if not slot.instance:
        return device
    return replace(
        device,
        parent=whole_uuid,
        sm_share=vendors.mig_share(model, mig_profile) if is_mig else 1.0,
        mig_profile=mig_profile,
        mig_instance_id=int(slot.instance) if is_mig and slot.instance.isdecimal() else None,
    )


def _uuid(slot: Slot, profile: Profile, labels: Labels, whole_uuid: str, endpoint_host: str) -> str:
    uuid = label(labels, profile.labels.uuid)
    is_own = not slot.instance or profile.instance_uuid == "own"
    if uuid and is_own:
        return uuid
    if not slot.instance:
        return f"{slot.host or endpoint_host}:{slot.profile_id}:{slot.base}"
    # As the driver named MIG devices before they had identities of their own.
    return (
        f"MIG-{whole_uuid}/{slot.instance}"
        if profile.labels.instance
        else (f"{whole_uuid}/{slot.instance}")
    )
