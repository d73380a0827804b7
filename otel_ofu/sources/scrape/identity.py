"""Which device a series speaks about, and whose it is.

Enters: the labels of a series and the profile of its exporter. Leaves: a `DeviceSlot`, the key
under which the series of one device meet, the `Device` itself, and its owners.

MIG: the exporter repeats what it knows of the whole GPU for each instance. Such values belong to
the GPU, or the power of a GPU with seven instances counts seven times.

A GPU that is shared (time-slicing, several jobs) has a series for each of its owners, told apart by
the job, else by the pod. What the series of one owner do not agree on is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from otel_ofu.catalog.vendors import ExporterProfile, Vendors
from otel_ofu.model import Device, Owner
from otel_ofu.model.owner import JOB_ID, JOB_SOURCE

Labels = Mapping[str, str]
SOURCE_NAME = "scrape"
_NO_JOB = "0"
"""What exporters write for a GPU that no job holds."""
_NOTHING = ("NA", "N/A", "[N/A]")
"""What AMD's exporter and nvidia-smi write in place of a value."""


@dataclass(frozen=True, slots=True)
class DeviceSlot:
    """A device of one exporter: `base` is the GPU, `instance` the MIG instance or partition."""

    profile_id: str
    host: str
    base: str
    instance: str = ""

    @property
    def whole(self) -> DeviceSlot:
        """The slot of the GPU that the instance is a part of."""
        return replace(self, instance="")


def label(labels: Labels, names: list[str]) -> str:
    """The first of `names` that has a value; DCGM's `<<<...>>>` are none, and `N/A` is none."""
    for name in names:
        value = labels.get(name)
        if value and not value.startswith("<<<") and value not in _NOTHING:
            return value
    return ""


def slot_of(profile_id: str, profile: ExporterProfile, labels: Labels) -> DeviceSlot | None:
    """The device's slot; None if the labels name no device."""
    names = profile.labels
    uuid, index = label(labels, names.uuid), label(labels, names.index)
    own_uuid = profile.instance_uuid == "own"
    base = (index or uuid) if own_uuid else (uuid or index)
    if not base:
        return None
    partition = label(labels, names.partition)
    instance = label(labels, names.instance) or (partition if partition != "0" else "")
    return DeviceSlot(profile_id, label(labels, names.host), base, instance)


def device_of(
    slot: DeviceSlot, vendors: Vendors, labels: Labels, whole_uuid: str, endpoint_host: str
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
        vendor=profile.vendor or model.partition(" ")[0].lower(),
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


def _uuid(
    slot: DeviceSlot, profile: ExporterProfile, labels: Labels, whole_uuid: str, endpoint_host: str
) -> str:
    uuid = label(labels, profile.labels.uuid)
    is_own = not slot.instance or profile.instance_uuid == "own"
    if uuid and is_own:
        return uuid if uuid.startswith(profile.uuid_prefix) else profile.uuid_prefix + uuid
    if not slot.instance:
        return f"{slot.host or endpoint_host}:{slot.profile_id}:{slot.base}"
    # As the driver named MIG devices before they had identities of their own.
    return (
        f"MIG-{whole_uuid}/{slot.instance}"
        if profile.labels.instance
        else (f"{whole_uuid}/{slot.instance}")
    )


def moved_labels(label_sets: Iterable[Labels], prefix: str) -> dict[str, str]:
    """The labels that Prometheus moved out of its own way -> their names on this page.

    Where one is moved, the label of the plain name speaks about the exporter, not the workload;
    on this page that holds for idle GPUs as well, which have the plain one only.
    """
    return {
        name.removeprefix(prefix): name
        for labels in label_sets
        for name in labels
        if name.startswith(prefix)
    }


def owners_of(
    profile: ExporterProfile, label_sets: Iterable[Labels], moved: Mapping[str, str]
) -> tuple[Owner, ...]:
    """The owners in the order of their names; `moved` maps a label to its name on this page."""
    names = {
        attribute: [moved.get(name, name) for name in labels]
        for attribute, labels in profile.owner.items()
    }
    found = (_named(profile, names, labels) for labels in label_sets)
    owners = (_merged(each) for _, each in sorted(_by_owner(found).items()))
    return tuple(Owner(attributes) for attributes in owners if attributes)


def _named(
    profile: ExporterProfile, names: Mapping[str, list[str]], labels: Labels
) -> dict[str, str]:
    """The owner's attributes that one set of labels has."""
    found = {attribute: _first_of(labels, here) for attribute, here in names.items()}
    none = {"", *profile.no_owner}
    named = {name: value for name, value in found.items() if value not in none}
    if named.get(JOB_ID) == _NO_JOB:
        del named[JOB_ID]
    return named


def _by_owner(found: Iterable[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    """By job, else by pod.

    Series that name neither, or the pod but not the job, are of the owner if there is one alone.
    """
    jobs: dict[str, list[dict[str, str]]] = {}
    pods: dict[str, list[dict[str, str]]] = {}
    for named in found:
        kind = jobs if JOB_ID in named else pods
        kind.setdefault(Owner(named).job_id, []).append(named)
    others = list(pods.values()) if jobs else [pods.pop("", [])]
    owners = jobs or pods or {"": []}
    if len(owners) == 1:
        next(iter(owners.values())).extend(named for each in others for named in each)
    return owners


def _merged(found: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """What the series of one owner say, without what they do not agree on."""
    values: dict[str, set[str]] = {}
    for named in found:
        for attribute, value in named.items():
            values.setdefault(attribute, set()).add(value)
    merged = {name: each.pop() for name, each in values.items() if len(each) == 1}
    return merged | ({JOB_SOURCE: SOURCE_NAME} if JOB_ID in merged else {})


def _first_of(labels: Labels, names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")


def hosts_of(devices: Iterable[Device], endpoint_host: str, *, is_local: bool) -> dict[str, str]:
    """Device -> the machine that it is on, empty for the agent's own.

    An exporter in a container calls this machine by the name of its container; a page that names
    several hosts (a Pushgateway, a federated one) speaks of them, wherever it is read.
    """
    given = {device.uuid: device.host for device in devices}
    named = {*given.values()} - {"", "localhost"}
    own = "" if is_local else endpoint_host
    if is_local and len(named) <= 1:
        return dict.fromkeys(given, own)
    return {uuid: host if host in named else own for uuid, host in given.items()}
