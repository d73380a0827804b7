"""The vendor's structures as plain values: enters what a call filled in, leaves our own types.

Source: dcgm_structs.h of DCGM 3.3 to 4.6: dcgmFieldValue_v1 and _v2, dcgmMigHierarchyInfo_v2,
dcgmProfMetricGroupInfo_v2, dcgmVersionInfo_v2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from otel_ofu.sources.dcgm.wire import Sample, Value

Entity = tuple[int, int]
"""(entity group, entity id) as DCGM numbers them."""

NONE, GPU, GPU_INSTANCE, COMPUTE_INSTANCE = 0, 1, 4, 5


@dataclass(frozen=True, slots=True)
class MigEntity:
    """A GPU instance or a compute instance as the hierarchy call lists it."""

    entity: Entity
    parent: Entity
    instance_id: int
    slices: int


@dataclass(frozen=True, slots=True)
class MetricGroup:
    """Profiling fields that are taken together; equal `major` with other `minor` takes turns."""

    major: int
    minor: int
    fields: tuple[int, ...]


def mig_entity(row: Any) -> MigEntity:  # noqa: ANN401 - c_dcgmMigHierarchyInfo_v2
    return MigEntity(
        entity=(row.entity.entityGroupId, row.entity.entityId),
        parent=(row.parent.entityGroupId, row.parent.entityId),
        instance_id=row.info.nvmlInstanceId,
        slices=row.info.nvmlProfileSlices,
    )


def sample(raw: Any) -> Sample:  # noqa: ANN401 - c_dcgmFieldValue_v1 or _v2
    return Sample(raw.fieldId, raw.status, raw.ts, _value(raw))


def _value(raw: Any) -> Value:  # noqa: ANN401 - see above
    kind = chr(raw.fieldType)
    if kind in "it":
        return int(raw.value.i64)
    if kind == "d":
        return float(raw.value.dbl)
    if kind == "s":
        return _text(raw.value.str)
    return None


def _text(raw: str | bytes) -> str:
    # The bindings' structures decode by themselves; plain ctypes ones do not.
    return raw if isinstance(raw, str) else raw.decode("utf-8", errors="replace")


def version(message: Any) -> str:  # noqa: ANN401 - c_dcgmVersionInfo_v2
    text = _text(message.rawBuildInfoString)
    match = re.search(r"version:([^;]+)", text)
    return match[1] if match else text
