"""What an engine can see: enters an `HostEngine`, leaves GPUs and MIG instances with identity.

MIG: one device for each compute instance, since that is what a job is given. Where it is alone in
its GPU instance, the values are those of the GPU instance, which has memory counters too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from otel_ofu.model import Device, Trouble
from otel_ofu.sources.dcgm import codes
from otel_ofu.sources.dcgm.codes import blank_reason
from otel_ofu.sources.dcgm.engine import (
    COMPUTE_INSTANCE,
    GPU,
    GPU_INSTANCE,
    NONE,
    EngineError,
    Entity,
    HostEngine,
    MigEntity,
)
from otel_ofu.sources.dcgm.wire import DcgmSample

DRIVER, NAME, NVML_INDEX, SERIAL, UUID, PCI, MAX_SLICES = 1, 50, 52, 53, 54, 57, 69
GPM_SUPPORT = 94
_IDENTITY = (NAME, NVML_INDEX, SERIAL, UUID, PCI, MAX_SLICES)
_USUAL_SLICES = 7  # every GPU with MIG up to Blackwell
_ONCE_S = 3600.0  # starting value: longer than the watch lives
_PROFILE = re.compile(r"(?:\d+c\.)?\d+g\.\d+gb(?:\+\S+)?")
_NO_MIG = frozenset({-6, -14, -22})
_NO_LABEL = frozenset({-1, -3, -6, -13, -14, -16})

GROUP_SIZE = 64
"""Entities that fit into one group of every engine since 3.x."""


@dataclass(frozen=True, slots=True)
class DcgmUnit:
    """One device and where its values are: `entity`, and on its GPU `gpu` the clocks.

    `gpm` is whether the GPU is profiled through the driver; None where the engine does not know.
    """

    device: Device
    entity: Entity
    gpu: Entity
    gpm: bool | None
    max_slices: int


@dataclass(frozen=True, slots=True)
class DcgmInventory:
    """All units, the ids that must stay equal for them to stay true, and what was left out."""

    units: tuple[DcgmUnit, ...]
    layout: tuple[object, ...]
    troubles: tuple[Trouble, ...] = ()


def layout(engine: HostEngine) -> tuple[object, ...]:
    """GPUs and MIG instances by id: changes when someone reconfigures them."""
    return (tuple(engine.gpu_ids()), tuple(_mig(engine)))


def take(engine: HostEngine) -> DcgmInventory:
    """Ask the engine for everything it sees. GPUs without a UUID are left out, with a trouble."""
    gpus, mig = engine.gpu_ids(), _mig(engine)
    entities = [(GPU, i) for i in gpus] + [m.entity for m in mig]
    facts = _facts(engine, entities)
    driver = _driver(engine, gpus)
    units = [_gpu_unit(engine, (GPU, i), facts[GPU, i], driver) for i in gpus]
    units += _mig_units(mig, facts, {u.entity: u for u in units})
    nameless = [u.entity for u in units if not u.device.uuid]
    troubles = tuple(
        Trouble(f"entity {e}", "no_uuid", "DCGM gives no UUID; it is left out") for e in nameless
    )
    named = tuple(u for u in units if u.device.uuid)
    return DcgmInventory(named, (tuple(gpus), tuple(mig)), troubles)


def all_known(engine: HostEngine, fields: Sequence[int]) -> bool:
    """Whether this engine knows the fields; one unknown id spoils a whole group."""
    try:
        engine.drop(None, engine.field_group(fields))
    except EngineError as error:
        if error.code == codes.BAD_PARAMETER:
            return False
        raise
    return True


def _mig(engine: HostEngine) -> list[MigEntity]:
    try:
        return engine.mig_entities()
    except EngineError as error:
        # Engines without any GPU that can do MIG refuse the question.
        if error.code in _NO_MIG:
            return []
        raise


def _facts(engine: HostEngine, entities: Sequence[Entity]) -> dict[Entity, dict[int, str]]:
    """Identity of every entity: read once, since it stays while the entity exists."""
    fields = [*_IDENTITY, *([GPM_SUPPORT] if all_known(engine, [GPM_SUPPORT]) else [])]
    facts: dict[Entity, dict[int, str]] = {}
    for start in range(0, len(entities), GROUP_SIZE):
        chunk = entities[start : start + GROUP_SIZE]
        rows = _attributes_of(engine, chunk, chunk, fields)
        facts |= {e: {s.field: _text(s) for s in row} for e, row in zip(chunk, rows, strict=True)}
    return facts


def _driver(engine: HostEngine, gpus: Sequence[int]) -> str:
    """Version of the driver: a field of the whole machine, watched through any GPU."""
    if not gpus:
        return ""
    try:
        rows = _attributes_of(engine, [(GPU, gpus[0])], [(NONE, 0)], [DRIVER])
    except EngineError as error:
        if error.code in _NO_LABEL:
            return ""
        raise
    return _text(rows[0][0])


def _attributes_of(
    engine: HostEngine, watched: Sequence[Entity], read: Sequence[Entity], fields: Sequence[int]
) -> list[list[DcgmSample]]:
    group, field_group = engine.group(watched), engine.field_group(fields)
    engine.watch(group, field_group, _ONCE_S, 2 * _ONCE_S)
    samples = engine.latest(read, fields)
    engine.drop(group, field_group)
    return samples


def _text(sample: DcgmSample) -> str:
    value = sample.value
    blank = blank_reason(value) is not None
    return "" if sample.status or value is None or blank else str(value)


def _gpu_unit(
    engine: HostEngine, entity: Entity, facts: Mapping[int, str], driver: str
) -> DcgmUnit:
    index, gpm, slices = (facts.get(f, "") for f in (NVML_INDEX, GPM_SUPPORT, MAX_SLICES))
    device = Device(
        uuid=facts.get(UUID, ""),
        index=int(index) if index else None,
        model=facts.get(NAME, ""),
        pci_address=facts.get(PCI, ""),
        serial=facts.get(SERIAL, ""),
        driver_version=driver,
        architecture=engine.architecture(entity[1]),
    )
    return DcgmUnit(device, entity, entity, gpm == "1" if gpm else None, int(slices or 0))


def _mig_units(
    mig: Sequence[MigEntity],
    facts: Mapping[Entity, Mapping[int, str]],
    gpus: Mapping[Entity, DcgmUnit],
) -> list[DcgmUnit]:
    instances = {m.entity: m for m in mig if m.entity[0] == GPU_INSTANCE}
    computes = [m for m in mig if m.entity[0] == COMPUTE_INSTANCE]
    shared_by = Counter(m.parent for m in computes)
    units = []
    for compute in computes:
        instance = instances.get(compute.parent)
        gpu = gpus.get(instance.parent) if instance else None
        if instance is None or gpu is None:
            continue  # torn down between two calls; the next inventory has it whole
        source = instance if shared_by[compute.parent] == 1 else compute
        device = _mig_device(compute, instance, gpu, facts)
        units.append(DcgmUnit(device, source.entity, gpu.entity, gpu.gpm, gpu.max_slices))
    return units


def _mig_device(
    compute: MigEntity,
    instance: MigEntity,
    gpu: DcgmUnit,
    facts: Mapping[Entity, Mapping[int, str]],
) -> Device:
    names = [facts[m.entity].get(NAME, "") for m in (compute, instance)]
    profiles = [m[0] for m in map(_PROFILE.search, names) if m]
    return replace(
        gpu.device,
        uuid=facts[compute.entity].get(UUID) or facts[instance.entity].get(UUID, ""),
        parent=gpu.device.uuid,
        sm_share=min(1.0, compute.slices / (gpu.max_slices or _USUAL_SLICES)) or 1.0,
        mig_profile=profiles[0] if profiles else "",
        mig_instance_id=instance.instance_id,
    )
