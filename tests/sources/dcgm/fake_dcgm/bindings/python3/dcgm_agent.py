"""Fake of the vendor's module: the flat calls, each of which can be refused by the engine."""
# ruff: noqa: ANN401, N802, N803 - the vendor's names

from __future__ import annotations

import functools
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_int32, c_uint32, c_void_p
from typing import Any, TypeVar

import dcgm_structs
import fakedcgm_engine  # type: ignore[import-not-found]

T = TypeVar("T")
dcgmFieldValueEntityEnumeration_f = CFUNCTYPE(  # noqa: N816 - the vendor's name
    c_int32, c_uint32, c_uint32, POINTER(dcgm_structs.c_dcgmFieldValue_v1), c_int32, c_void_p
)


def _checked(call: Callable[..., T]) -> Callable[..., T]:
    @functools.wraps(call)
    def wrapper(*args: Any) -> T:
        try:
            return call(*args)
        except fakedcgm_engine.Refused as refused:
            raise dcgm_structs.DCGMError(refused.code) from None

    return wrapper


def _engine() -> Any:
    return fakedcgm_engine.current()


@_checked
def connect(address: str) -> int:
    return int(_engine().connect(address))


@_checked
def dcgmStartEmbedded(opMode: int) -> int:
    return int(_engine().embed())


@_checked
def dcgmDisconnect(handle: int | None) -> None:
    _engine().disconnect(handle)


@_checked
def dcgmGetAllDevices(handle: int | None) -> list[int]:
    engine = _engine()
    engine.use(handle, "all devices")
    return [g["id"] for g in engine.gpus()]


@_checked
def dcgmGetGpuInstanceHierarchy(handle: int | None) -> Any:
    engine = _engine()
    engine.use(handle, "hierarchy")
    answer = dcgm_structs.c_dcgmMigHierarchy_v2()
    for row in engine.hierarchy():
        place = answer.entityList[answer.count]
        place.entity = dcgm_structs.c_dcgmGroupEntityPair_t(*row["entity"])
        place.parent = dcgm_structs.c_dcgmGroupEntityPair_t(*row["parent"])
        place.info.gpuUuid = row["gpu"]["uuid"].encode()
        place.info.nvmlInstanceId = row["gi"]["gi"]
        place.info.nvmlProfileSlices = row["slices"]
        answer.count += 1
    return answer


@_checked
def dcgmProfGetSupportedMetricGroups(handle: int | None, gpuId: int) -> Any:
    engine = _engine()
    engine.use(handle, "metric groups")
    answer = dcgm_structs.c_dcgmProfGetMetricGroups_v3()
    for major, minor, ids in engine.metric_groups(gpuId):
        group = answer.metricGroups[answer.numMetricGroups]
        group.majorId, group.minorId, group.numFieldIds = major, minor, len(ids)
        group.fieldIds[: len(ids)] = ids
        answer.numMetricGroups += 1
    return answer


@_checked
def dcgmModuleGetStatuses(handle: int | None) -> Any:
    engine = _engine()
    engine.use(handle, "module statuses")
    answer = dcgm_structs.c_dcgmModuleGetStatuses_v1()
    answer.numStatuses = 11
    for i in range(11):
        answer.statuses[i].id, answer.statuses[i].status = i, 3
    if engine.get("paused", False):
        answer.statuses[8].status = 5
    return answer


@_checked
def dcgmVersionInfo() -> Any:
    message = dcgm_structs.c_dcgmVersionInfo_v2()
    dcgm_structs.fill_version(message, _engine().get("library_version", "4.6.0"))
    return message


@_checked
def dcgmEntitiesGetLatestValues(
    handle: int | None, entities: list[Any], fieldIds: list[int], flags: int
) -> Any:
    pairs = [(e.entityGroupId, e.entityId) for e in entities]
    rows = _engine().latest(handle, pairs, fieldIds, flags)
    answer = (dcgm_structs.c_dcgmFieldValue_v2 * len(rows))()
    for place, (group, entity, field, status, ts, value) in zip(answer, rows, strict=True):
        place.entityGroupId, place.entityId = group, entity
        _fill(place, field, status, ts, value)
    return answer


@_checked
def dcgmGetValuesSince_v2(  # noqa: PLR0917 - the vendor's signature
    handle: int | None, groupId: Any, fieldGroupId: Any, since: int, callback: Any, userData: Any
) -> int:
    rows, next_since = _engine().since(handle, groupId.value, fieldGroupId.value, since)
    for entity, field, (ts, value, status) in rows:
        values = (dcgm_structs.c_dcgmFieldValue_v1 * 1)()
        _fill(values[0], field, status, ts, value)
        callback(*entity, values, 1, None)
    return int(next_since)


def _fill(place: Any, field: int, status: int, ts: int, value: Any) -> None:
    place.fieldId, place.status, place.ts = field, status, ts
    if isinstance(value, str):
        place.fieldType, place.value.str = ord("s"), value.encode()
    elif isinstance(value, float):
        place.fieldType, place.value.dbl = ord("d"), value
    else:
        place.fieldType, place.value.i64 = ord("i"), value or 0


def _architecture(handle: int | None, gpuId: int) -> int:
    engine = _engine()
    engine.use(handle, "architecture")
    return int(engine.gpu(gpuId).get("arch", 9))


def __getattr__(name: str) -> Any:
    # The bindings of 3.x have no such function.
    if name == "dcgmGetGpuChipArchitecture" and _engine().bindings_major() > 3:
        return _checked(_architecture)
    raise AttributeError(name)
