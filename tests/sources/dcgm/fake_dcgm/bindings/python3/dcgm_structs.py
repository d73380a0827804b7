"""Fake of the vendor's module: structures and codes; libdcgm.so.4 itself is not there."""
# ruff: noqa: ANN401, N801 - the vendor's names

from __future__ import annotations

from collections.abc import Callable
from ctypes import (
    Structure,
    Union,
    c_byte,
    c_char,
    c_double,
    c_int,
    c_int64,
    c_short,
    c_uint,
    c_uint32,
    c_ushort,
)
from typing import Any

import fakedcgm_engine  # type: ignore[import-not-found]

DCGM_ST_OK = 0
_WORDS = {
    -1: "Bad parameter passed to function",
    -11: "Timeout",
    -21: "The connection to the host engine is not valid any longer",
    -25: "DCGM library could not be found",
}


class DCGMError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return _WORDS.get(self.value, f"DCGM Error with code {self.value}")


class _Decoding:
    """Texts come out of the vendor's structures as str, not as the bytes of ctypes."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        return value.decode("utf-8") if isinstance(value, bytes) else value


class c_dcgmGroupEntityPair_t(_Decoding, Structure):
    _fields_ = [("entityGroupId", c_uint32), ("entityId", c_uint32)]


class c_dcgmFieldValue_v1_value(_Decoding, Union):
    _fields_ = [
        ("i64", c_int64), ("dbl", c_double), ("str", c_char * 256), ("blob", c_byte * 4096)
    ]  # fmt: skip


class c_dcgmFieldValue_v1(_Decoding, Structure):
    _fields_ = [
        ("version", c_uint), ("fieldId", c_ushort), ("fieldType", c_short), ("status", c_int),
        ("ts", c_int64), ("value", c_dcgmFieldValue_v1_value),
    ]  # fmt: skip


class c_dcgmFieldValue_v2(_Decoding, Structure):
    _fields_ = [
        ("version", c_uint), ("entityGroupId", c_uint), ("entityId", c_uint),
        ("fieldId", c_ushort), ("fieldType", c_short), ("status", c_int), ("unused", c_uint),
        ("ts", c_int64), ("value", c_dcgmFieldValue_v1_value),
    ]  # fmt: skip


class c_dcgmMigEntityInfo_t(_Decoding, Structure):
    _fields_ = [
        ("gpuUuid", c_char * 128), ("nvmlGpuIndex", c_uint), ("nvmlInstanceId", c_uint),
        ("nvmlComputeInstanceId", c_uint), ("nvmlMigProfileId", c_uint),
        ("nvmlProfileSlices", c_uint),
    ]  # fmt: skip


class c_dcgmMigHierarchyInfo_v2(_Decoding, Structure):
    _fields_ = [
        ("entity", c_dcgmGroupEntityPair_t), ("parent", c_dcgmGroupEntityPair_t),
        ("info", c_dcgmMigEntityInfo_t),
    ]  # fmt: skip


class c_dcgmMigHierarchy_v2(_Decoding, Structure):
    _fields_ = [
        ("version", c_uint), ("count", c_uint), ("entityList", c_dcgmMigHierarchyInfo_v2 * 448)
    ]  # fmt: skip


class c_dcgmProfMetricGroupInfo_v2(_Decoding, Structure):
    _fields_ = [
        ("majorId", c_ushort), ("minorId", c_ushort), ("numFieldIds", c_uint32),
        ("fieldIds", c_ushort * 64),
    ]  # fmt: skip


class c_dcgmProfGetMetricGroups_v3(_Decoding, Structure):
    _fields_ = [
        ("version", c_uint32), ("unused", c_uint32), ("gpuId", c_uint32),
        ("numMetricGroups", c_uint32), ("metricGroups", c_dcgmProfMetricGroupInfo_v2 * 10),
    ]  # fmt: skip


class c_dcgmModuleGetStatusesModule_t(_Decoding, Structure):
    _fields_ = [("id", c_uint32), ("status", c_uint32)]


class c_dcgmModuleGetStatuses_v1(_Decoding, Structure):
    _fields_ = [
        ("version", c_uint), ("numStatuses", c_uint32),
        ("statuses", c_dcgmModuleGetStatusesModule_t * 16),
    ]  # fmt: skip


class c_dcgmVersionInfo_v2(_Decoding, Structure):
    _fields_ = [("version", c_uint32), ("rawBuildInfoString", c_char * 512)]


dcgmVersionInfo_version2 = 2  # noqa: N816 - the vendor's name


def _dcgmInit(libDcgmPath: str | None = None) -> None:  # noqa: N802, N803 - the vendor's names
    if fakedcgm_engine.current().get("library_missing", False):
        raise DCGMError(-25)


def _dcgmCheckReturn(ret: int) -> int:  # noqa: N802 - the vendor's name
    if ret:
        raise DCGMError(ret)
    return ret


def _dcgmGetFunctionPointer(name: str) -> Callable[..., int]:  # noqa: N802 - the vendor's name
    if name != "dcgmHostengineVersionInfo":
        raise DCGMError(-20)
    return _engine_version


def _engine_version(handle: int | None, message: Any) -> int:
    engine = fakedcgm_engine.current()
    try:
        engine.use(handle, "engine version")
    except fakedcgm_engine.Refused as refused:
        return int(refused.code)
    # byref() hides the structure; CPython keeps it here.
    fill_version(message._obj, engine.version())
    return 0


def fill_version(message: Any, version: str) -> None:
    message.rawBuildInfoString = f"version:{version};arch:x86_64;buildtype:Release".encode()
