"""Fake of the vendor's module: handle, groups and field groups, as far as a client needs them."""
# ruff: noqa: ANN401, N802, N803, PLR0917 - the vendor's names

from __future__ import annotations

from ctypes import c_void_p
from typing import Any

import dcgm_agent
import dcgm_structs
import fakedcgm_engine  # type: ignore[import-not-found]


class DcgmHandle:
    def __init__(
        self,
        handle: int | None = None,
        ipAddress: str | None = None,
        opMode: int = 1,
        persistAfterDisconnect: bool = False,  # noqa: FBT001, FBT002 - the vendor's signature
        unixSocketPath: str | None = None,
        timeoutMs: int = 0,
    ) -> None:
        if ipAddress is not None and unixSocketPath is not None:
            raise dcgm_structs.DCGMError(-1)
        dcgm_structs._dcgmInit()
        address = ipAddress or unixSocketPath
        self.handle: int | None
        self.handle = (
            dcgm_agent.connect(address) if address else dcgm_agent.dcgmStartEmbedded(opMode)
        )

    def Shutdown(self) -> None:
        if self.handle is not None:
            dcgm_agent.dcgmDisconnect(self.handle)
            self.handle = None


class DcgmGroupSamples:
    def __init__(self, handle: DcgmHandle, group: Any) -> None:
        self._handle, self._group = handle, group

    def WatchFields(
        self, fieldGroup: Any, updateFreq: int, maxKeepAge: float, maxKeepSamples: int
    ) -> None:
        _ask("watch", self._handle.handle, self._group.value, fieldGroup.fieldGroupId.value,
             updateFreq, maxKeepAge)  # fmt: skip


class DcgmGroup:
    def __init__(
        self,
        dcgmHandle: DcgmHandle,
        groupId: Any = None,
        groupName: str | None = None,
        groupType: int = 0,
    ) -> None:
        if groupType != 1:
            raise AssertionError("a default group watches whatever there is")
        self._handle = dcgmHandle
        self._id = c_void_p(_ask("create_group", dcgmHandle.handle))
        self.samples = DcgmGroupSamples(dcgmHandle, self._id)

    def GetId(self) -> Any:
        return self._id

    def AddEntity(self, entityGroupId: int, entityId: int) -> None:
        _ask("add_entity", self._handle.handle, self._id.value, (entityGroupId, entityId))

    def Delete(self) -> None:
        _ask("delete_group", self._handle.handle, self._id.value)


class DcgmFieldGroup:
    def __init__(self, dcgmHandle: DcgmHandle, name: str, fieldIds: list[int]) -> None:
        self._handle = dcgmHandle
        self.fieldGroupId = c_void_p(_ask("create_field_group", dcgmHandle.handle, name, fieldIds))

    def Delete(self) -> None:
        _ask("delete_field_group", self._handle.handle, self.fieldGroupId.value)


def _ask(name: str, *args: Any) -> Any:
    try:
        return getattr(fakedcgm_engine.current(), name)(*args)
    except fakedcgm_engine.Refused as refused:
        raise dcgm_structs.DCGMError(refused.code) from None
