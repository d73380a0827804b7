"""libdcgm by ctypes, for where NVIDIA's Python client is not: in containers that mount the library.

Enters: the path of a library. Leaves: `NativeClient`, which has those names of the vendor's modules
(pydcgm, dcgm_agent, dcgm_structs) that `engine` uses, so that it cannot tell them apart.
Source: dcgm_agent.h and dcgm_structs.h of DCGM 3.3 to 4.6; structures by their version, which never
changes. `dcgmConnect_v2` is in all of them.
"""
# ruff: noqa: N802, N803, N815 - the names of the vendor

from __future__ import annotations

from collections.abc import Sequence
from ctypes import (
    CDLL,
    POINTER,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int64,
    c_uint,
    c_ushort,
    c_void_p,
    sizeof,
)
from typing import Any

_MAX_GPUS = 32
_MAX_MIG = _MAX_GPUS * 14
_FIELD_VALUE_V2_BYTES = 32 + 4096


class DCGMError(Exception):
    """A call was refused, with DCGM's code in `value`."""

    def __init__(self, value: int, text: str) -> None:
        super().__init__(text)
        self.value = value


class _ConnectParameters(Structure):
    _fields_ = (
        ("version", c_uint),
        ("persistAfterDisconnect", c_uint),
        ("timeoutMs", c_uint),
        ("addressIsUnixSocket", c_uint),
    )


class _VersionInfo(Structure):
    _fields_ = (("version", c_uint), ("rawBuildInfoString", c_char * 512))


class _EntityPair(Structure):
    _fields_ = (("entityGroupId", c_uint), ("entityId", c_uint))


class _MigInfo(Structure):
    _fields_ = (
        ("gpuUuid", c_char * 128),
        ("nvmlGpuIndex", c_uint),
        ("nvmlInstanceId", c_uint),
        ("nvmlComputeInstanceId", c_uint),
        ("nvmlMigProfileId", c_uint),
        ("nvmlProfileSlices", c_uint),
    )


class _MigRow(Structure):
    _fields_ = (("entity", _EntityPair), ("parent", _EntityPair), ("info", _MigInfo))


class _MigHierarchy(Structure):
    _fields_ = (("version", c_uint), ("count", c_uint), ("entityList", _MigRow * _MAX_MIG))


class _MetricGroup(Structure):
    _fields_ = (
        ("majorId", c_ushort),
        ("minorId", c_ushort),
        ("numFieldIds", c_uint),
        ("fieldIds", c_ushort * 64),
    )


class _MetricGroups(Structure):
    _fields_ = (
        ("version", c_uint),
        ("unused", c_uint),
        ("gpuId", c_uint),
        ("numMetricGroups", c_uint),
        ("metricGroups", _MetricGroup * 10),
    )


class _ModuleStatus(Structure):
    _fields_ = (("id", c_uint), ("status", c_uint))


class _ModuleStatuses(Structure):
    _fields_ = (("version", c_uint), ("numStatuses", c_uint), ("statuses", _ModuleStatus * 16))


class _FieldValue(Structure):
    _fields_ = (("bytes", c_char * _FIELD_VALUE_V2_BYTES),)


def _version(kind: type[Structure], number: int) -> int:
    """MAKE_DCGM_VERSION: the size of a structure with its version above."""
    return sizeof(kind) | number << 24


# One place for what each function takes, beside its handle: a wrong width would pass unseen.
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "dcgmInit": (),
    "dcgmStartEmbedded": (c_int, POINTER(c_void_p)),
    "dcgmStopEmbedded": (c_void_p,),
    "dcgmConnect_v2": (c_char_p, POINTER(_ConnectParameters), POINTER(c_void_p)),
    "dcgmDisconnect": (c_void_p,),
    "dcgmVersionInfo": (POINTER(_VersionInfo),),
    "dcgmHostengineVersionInfo": (c_void_p, POINTER(_VersionInfo)),
    "dcgmGetAllDevices": (c_void_p, POINTER(c_uint), POINTER(c_int)),
    "dcgmGetGpuInstanceHierarchy": (c_void_p, POINTER(_MigHierarchy)),
    "dcgmGetGpuChipArchitecture": (c_void_p, c_uint, POINTER(c_uint)),
    "dcgmProfGetSupportedMetricGroups": (c_void_p, POINTER(_MetricGroups)),
    "dcgmModuleGetStatuses": (c_void_p, POINTER(_ModuleStatuses)),
    "dcgmGroupCreate": (c_void_p, c_int, c_char_p, POINTER(c_void_p)),
    "dcgmGroupAddEntity": (c_void_p, c_void_p, c_uint, c_uint),
    "dcgmGroupDestroy": (c_void_p, c_void_p),
    "dcgmFieldGroupCreate": (c_void_p, c_int, POINTER(c_ushort), c_char_p, POINTER(c_void_p)),
    "dcgmFieldGroupDestroy": (c_void_p, c_void_p),
    "dcgmWatchFields": (c_void_p, c_void_p, c_void_p, c_int64, c_double, c_int),
    "dcgmEntitiesGetLatestValues": (
        c_void_p, POINTER(_EntityPair), c_uint, POINTER(c_ushort), c_uint, c_uint,
        POINTER(_FieldValue),
    ),
    "dcgmGetValuesSince_v2": (
        c_void_p, c_void_p, c_void_p, c_int64, POINTER(c_int64), c_void_p, c_void_p,
    ),
}  # fmt: skip


class NativeClient:
    """One loaded library. OSError, in the loader's words, if it cannot be loaded."""

    DCGMError = DCGMError
    c_dcgmVersionInfo_v2 = _VersionInfo
    dcgmVersionInfo_version2 = _version(_VersionInfo, 2)
    c_dcgmGroupEntityPair_t = _EntityPair

    def __init__(self, path: str) -> None:
        self._library = CDLL(path)
        self._library.errorString.restype = c_char_p
        self.call("dcgmInit")

    def call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401 - what ctypes takes
        """DCGMError if it is refused; AttributeError if this library has no such function."""
        function = getattr(self._library, name)
        function.argtypes = _ARGUMENTS[name]
        self._dcgmCheckReturn(function(*arguments))

    def _dcgmCheckReturn(self, code: int) -> None:
        if code:
            text = self._library.errorString(code) or b""
            raise DCGMError(code, text.decode("utf-8", errors="replace"))

    def _dcgmGetFunctionPointer(self, name: str) -> Any:  # noqa: ANN401 - a function of ctypes
        function = getattr(self._library, name)
        function.argtypes = _ARGUMENTS[name]
        return function

    def dcgmGetAllDevices(self, handle: c_void_p) -> list[int]:
        ids, count = (c_uint * _MAX_GPUS)(), c_int()
        self.call("dcgmGetAllDevices", handle, ids, byref(count))
        return list(ids[: count.value])

    def dcgmGetGpuInstanceHierarchy(self, handle: c_void_p) -> _MigHierarchy:
        answer = _MigHierarchy(version=_version(_MigHierarchy, 2))
        self.call("dcgmGetGpuInstanceHierarchy", handle, byref(answer))
        return answer

    def dcgmProfGetSupportedMetricGroups(self, handle: c_void_p, gpuId: int) -> _MetricGroups:
        answer = _MetricGroups(version=_version(_MetricGroups, 3), gpuId=gpuId)
        self.call("dcgmProfGetSupportedMetricGroups", handle, byref(answer))
        return answer

    def dcgmGetGpuChipArchitecture(self, handle: c_void_p, gpuId: int) -> int:
        answer = c_uint()
        self.call("dcgmGetGpuChipArchitecture", handle, gpuId, byref(answer))
        return answer.value

    def dcgmModuleGetStatuses(self, handle: c_void_p) -> _ModuleStatuses:
        answer = _ModuleStatuses(version=_version(_ModuleStatuses, 1))
        self.call("dcgmModuleGetStatuses", handle, byref(answer))
        return answer

    def dcgmVersionInfo(self) -> _VersionInfo:
        answer = _VersionInfo(version=self.dcgmVersionInfo_version2)
        self.call("dcgmVersionInfo", byref(answer))
        return answer

    def dcgmEntitiesGetLatestValues(
        self, handle: c_void_p, entities: Sequence[_EntityPair], fields: Sequence[int], flags: int
    ) -> Any:  # noqa: ANN401 - an array of ctypes
        pairs = (_EntityPair * len(entities))(*entities)
        ids = (c_ushort * len(fields))(*fields)
        answer = (_FieldValue * (len(entities) * len(fields)))()
        self.call(
            "dcgmEntitiesGetLatestValues", handle, pairs, len(pairs), ids, len(ids), flags, answer
        )
        return answer

    def dcgmGetValuesSince_v2(self, *request: Any) -> int:  # noqa: ANN401 - the vendor's signature
        handle, group, fields, since, callback, data = request
        following = c_int64()
        self.call(
            "dcgmGetValuesSince_v2", handle, group, fields, since, byref(following), callback, data
        )
        return following.value

    def DcgmHandle(self, **how: Any) -> NativeConnection:  # noqa: ANN401 - the vendor's signature
        return NativeConnection(self, **how)

    def DcgmGroup(self, handle: NativeConnection, groupName: str, groupType: int) -> NativeGroup:
        return NativeGroup(self, handle, groupName, groupType)

    def DcgmFieldGroup(
        self, handle: NativeConnection, name: str, ids: Sequence[int]
    ) -> NativeFieldGroup:
        return NativeFieldGroup(self, handle, name, ids)


class NativeConnection:
    """A connection, or an engine in this process where no address is given."""

    def __init__(
        self,
        client: NativeClient,
        ipAddress: str = "",
        unixSocketPath: str = "",
        timeoutMs: int = 0,
        opMode: int = 0,
    ) -> None:
        self._client = client
        self.handle: c_void_p | None = c_void_p()
        self._end = "dcgmDisconnect" if ipAddress or unixSocketPath else "dcgmStopEmbedded"
        if self._end == "dcgmStopEmbedded":
            client.call("dcgmStartEmbedded", opMode, byref(self.handle))
            return
        parameters = _ConnectParameters(
            version=_version(_ConnectParameters, 2),
            timeoutMs=timeoutMs,
            addressIsUnixSocket=int(bool(unixSocketPath)),
        )
        address = (ipAddress or unixSocketPath).encode()
        client.call("dcgmConnect_v2", address, byref(parameters), byref(self.handle))

    def Shutdown(self) -> None:
        handle, self.handle = self.handle, None
        if handle is not None:
            self._client.call(self._end, handle)


class NativeGroup:
    """A group of entities. It is its own `samples`, as the vendor's has one beside it."""

    def __init__(
        self, client: NativeClient, handle: NativeConnection, groupName: str, groupType: int
    ) -> None:
        self._client, self._handle = client, handle
        self._id = c_void_p()
        client.call(
            "dcgmGroupCreate", handle.handle, groupType, groupName.encode(), byref(self._id)
        )

    @property
    def samples(self) -> NativeGroup:
        return self

    def GetId(self) -> c_void_p:
        return self._id

    def AddEntity(self, entityGroupId: int, entityId: int) -> None:
        handle = self._handle.handle
        self._client.call("dcgmGroupAddEntity", handle, self._id, entityGroupId, entityId)

    def WatchFields(
        self, fieldGroup: NativeFieldGroup, updateFreq: int, maxKeepAge: float, maxKeepSamples: int
    ) -> None:
        request = (fieldGroup.fieldGroupId, updateFreq, maxKeepAge, maxKeepSamples)
        self._client.call("dcgmWatchFields", self._handle.handle, self._id, *request)

    def Delete(self) -> None:
        self._client.call("dcgmGroupDestroy", self._handle.handle, self._id)


class NativeFieldGroup:
    """A group of fields; its name is unique in the engine."""

    def __init__(
        self, client: NativeClient, handle: NativeConnection, name: str, ids: Sequence[int]
    ) -> None:
        self._client, self._handle = client, handle
        self.fieldGroupId = c_void_p()
        fields = (c_ushort * len(ids))(*ids)
        client.call(
            "dcgmFieldGroupCreate", handle.handle, len(fields), fields, name.encode(),
            byref(self.fieldGroupId),
        )  # fmt: skip

    def Delete(self) -> None:
        self._client.call("dcgmFieldGroupDestroy", self._handle.handle, self.fieldGroupId)
