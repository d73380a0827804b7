"""One connection to a host engine: the only place that calls the vendor's client.

Enters: `Bindings` and an endpoint. Leaves: plain values, and `EngineError` with the code of
whatever went wrong. Everything that it creates in the engine it deletes in `close`.
Source: dcgm_agent.h and dcgm_structs.h of DCGM 3.3 to 4.6.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from otel_ofu.sources.dcgm import codes
from otel_ofu.sources.dcgm.bindings import Bindings
from otel_ofu.sources.dcgm.endpoint import EngineEndpoint
from otel_ofu.sources.dcgm.wire import DcgmSample, Value

Memory = bytes | memoryview
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


# Values are unpacked from memory: the vendor's structures are 4 KiB each, and to read an attribute
# of one in Python takes several microseconds. dcgm_structs.h: dcgmFieldValue_v1 and _v2; a version
# of a structure never changes.
_V1 = struct.Struct("=4xHHi4xq")
_V2 = struct.Struct("=4xIIHHi4xq")
_INT, _DOUBLE = struct.Struct("=q"), struct.Struct("=d")
_TEXT_BYTES = 256
_KIND_INT, _KIND_TIME, _KIND_DOUBLE, _KIND_TEXT = b"itds"


def _value(memory: Memory, offset: int, kind: int) -> Value:
    if kind in {_KIND_INT, _KIND_TIME}:
        return int(_INT.unpack_from(memory, offset)[0])
    if kind == _KIND_DOUBLE:
        return float(_DOUBLE.unpack_from(memory, offset)[0])
    if kind == _KIND_TEXT:
        text = bytes(memory[offset : offset + _TEXT_BYTES])
        return text.partition(b"\0")[0].decode("utf-8", errors="replace")
    return None


def version(message: Any) -> str:  # noqa: ANN401 - c_dcgmVersionInfo_v2
    raw = message.rawBuildInfoString
    # The bindings' structures decode by themselves; plain ctypes ones do not.
    text = raw if isinstance(raw, str) else raw.decode("utf-8", errors="replace")
    match = re.search(r"version:([^;]+)", text)
    return match[1] if match else text


_V1_BYTES = _V1.size + 4096
_ENUMERATION = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p
)
"""dcgmFieldValueEntityEnumeration_f, with the values by their address."""

CONNECT_TIMEOUT_MS = 2000  # starting value
_EMPTY_GROUP = 1
_AUTO_MODE = 1
_PROFILING_MODULE = 8
_MODULE_PAUSED = 5
_ARCHITECTURES = {
    5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper", 10: "blackwell",
}  # fmt: skip


class EngineError(Exception):
    """A call was refused: DCGM's code, its text, and the call."""

    def __init__(self, code: int, detail: str, call: str) -> None:
        super().__init__(f"{call}: {detail} ({code})")
        self.code = code
        self.detail = detail
        self.call = call


@dataclass(frozen=True, slots=True)
class EngineWatch:
    """Fields of a group of entities: both handles, which `HostEngine` deletes."""

    group: Any
    fields: Any


@dataclass(frozen=True, slots=True)
class SampleHistory:
    """Samples, and the time of the engine from which on the next ones are to be asked for."""

    rows: list[tuple[Entity, DcgmSample]]
    next_us: int


class HostEngine:
    """Used by one thread: start and end of DCGM's client are not thread safe."""

    def __init__(self, bindings: Bindings, where: EngineEndpoint) -> None:
        self._dcgm = bindings
        self._agent = bindings.dcgm_agent
        self._prefix = f"otel-ofu-{os.getpid()}-{os.urandom(4).hex()}"
        self._number = 0
        self._groups: list[Any] = []
        self._field_groups: list[Any] = []
        self._callback: Any = None
        with self._call(f"connect to {where}"):
            self._handle = bindings.pydcgm.DcgmHandle(**_how(where))

    @property
    def _id(self) -> Any:  # noqa: ANN401 - an opaque handle of the vendor
        return self._handle.handle

    def gpu_ids(self) -> list[int]:
        """Ids of all GPUs. The first call that shows whether the peer is an engine."""
        with self._call("list the GPUs"):
            return list(self._agent.dcgmGetAllDevices(self._id))

    def mig_entities(self) -> list[MigEntity]:
        with self._call("list MIG instances"):
            hierarchy = self._agent.dcgmGetGpuInstanceHierarchy(self._id)
        return [mig_entity(hierarchy.entityList[i]) for i in range(hierarchy.count)]

    def metric_groups(self, gpu_id: int) -> list[MetricGroup]:
        """What the GPU can count. EngineError when it cannot be profiled."""
        with self._call("list profiling metric groups"):
            answer = self._agent.dcgmProfGetSupportedMetricGroups(self._id, gpu_id)
        groups = answer.metricGroups[: answer.numMetricGroups]
        return [
            MetricGroup(g.majorId, g.minorId, tuple(g.fieldIds[: g.numFieldIds])) for g in groups
        ]

    def architecture(self, gpu_id: int) -> str:
        """Such as `hopper`; empty where the bindings (3.x) or the engine does not know."""
        if not hasattr(self._agent, "dcgmGetGpuChipArchitecture"):
            return ""
        try:
            with self._call("read the architecture"):
                number = self._agent.dcgmGetGpuChipArchitecture(self._id, gpu_id)
        except EngineError:
            return ""  # a label only; nothing else depends on it
        return _ARCHITECTURES.get(number, "")

    def profiling_paused(self) -> bool:
        """Whether someone paused profiling; values are then blank without any reason."""
        with self._call("read the states of modules"):
            answer = self._agent.dcgmModuleGetStatuses(self._id)
        states = {m.id: m.status for m in answer.statuses[: answer.numStatuses]}
        return states.get(_PROFILING_MODULE) == _MODULE_PAUSED

    def major(self) -> int | None:
        """Of the host engine's version, or of the client's where it hides its own."""
        try:
            first = self.engine_version().partition(".")[0]
        except EngineError:
            return self._dcgm.major
        return int(first) if first.isdigit() else self._dcgm.major

    def library_version(self) -> str:
        with self._call("read the version of the library"):
            return version(self._agent.dcgmVersionInfo())

    def engine_version(self) -> str:
        """Version of the host engine; the bindings have no function for it, the library has."""
        structs = self._dcgm.dcgm_structs
        message = structs.c_dcgmVersionInfo_v2()
        message.version = structs.dcgmVersionInfo_version2
        with self._call("read the version of the host engine"):
            call = structs._dcgmGetFunctionPointer("dcgmHostengineVersionInfo")  # noqa: SLF001
            structs._dcgmCheckReturn(call(self._id, ctypes.byref(message)))  # noqa: SLF001
        return version(message)

    def group(self, entities: Sequence[Entity]) -> Any:  # noqa: ANN401 - opaque
        with self._call("create a group"):
            group = self._dcgm.pydcgm.DcgmGroup(
                self._handle, groupName=self._name(), groupType=_EMPTY_GROUP
            )
        self._groups.append(group)
        for entity in entities:
            with self._call(f"add entity {entity} to a group"):
                group.AddEntity(*entity)
        return group

    def field_group(self, fields: Sequence[int]) -> Any:  # noqa: ANN401 - opaque
        """EngineError BAD_PARAMETER if the engine knows only some of the fields."""
        with self._call(f"create a group of fields {list(fields)}"):
            group = self._dcgm.pydcgm.DcgmFieldGroup(self._handle, self._name(), list(fields))
        self._field_groups.append(group)
        return group

    def watch(self, group: Any, fields: Any, period_s: float, keep_s: float) -> EngineWatch:  # noqa: ANN401
        """Start sampling; the engine takes one sample of each field before it answers."""
        with self._call("watch fields"):
            group.samples.WatchFields(fields, round(period_s * 1e6), keep_s, 0)
        return EngineWatch(group, fields)

    def latest(self, entities: Sequence[Entity], fields: Sequence[int]) -> list[list[DcgmSample]]:
        """The newest sample of every field, one list for each entity, from the engine's cache."""
        pair = self._dcgm.dcgm_structs.c_dcgmGroupEntityPair_t
        with self._call("read values"):
            answer = self._agent.dcgmEntitiesGetLatestValues(
                self._id, [pair(*e) for e in entities], list(fields), 0
            )
        index = {entity: i for i, entity in enumerate(entities)}
        samples: list[list[DcgmSample]] = [[] for _ in entities]
        memory = memoryview(answer).cast("B")
        for start in range(0, len(memory), len(memory) // max(1, len(answer))):
            group, entity, field_id, kind, status, ts_us = _V2.unpack_from(memory, start)
            value = _value(memory, start + _V2.size, kind)
            samples[index[group, entity]].append(DcgmSample(field_id, status, ts_us, value))
        return samples

    def history(self, watch: EngineWatch, since_us: int) -> SampleHistory:
        """All samples of a group's fields from an instant on, oldest first for each field.

        One request of the library for each entity and field. A field without any sample has one
        with a status and the time 0.
        """
        found: list[tuple[Entity, DcgmSample]] = []

        def collect(group: int, entity: int, address: int, count: int, _: object) -> int:
            for start in range(address, address + count * _V1_BYTES, _V1_BYTES):
                memory = ctypes.string_at(start, _V1.size + _TEXT_BYTES)
                field_id, kind, status, ts_us = _V1.unpack_from(memory)
                value = _value(memory, _V1.size, kind)
                found.append(((group, entity), DcgmSample(field_id, status, ts_us, value)))
            return 0

        callback = _ENUMERATION(collect)
        with self._call("read the history"):
            next_us = self._agent.dcgmGetValuesSince_v2(
                self._id,
                watch.group.GetId(),
                watch.fields.fieldGroupId,
                since_us,
                callback,
                None,
            )
        return SampleHistory(found, next_us)

    def drop(self, group: Any, fields: Any) -> None:  # noqa: ANN401 - opaque
        """Delete a group of entities and a group of fields before `close`; None is skipped."""
        for item, owned in ((fields, self._field_groups), (group, self._groups)):
            if item is not None:
                owned.remove(item)
                with self._call("delete a group"):
                    item.Delete()

    def close(self) -> None:
        """Delete all that was created and disconnect; what cannot be deleted the engine drops."""
        # Groups first: they outlive the handle otherwise and complain when collected.
        for owned in (self._field_groups, self._groups):
            while owned and self._done(owned.pop().Delete):
                pass
        self._done(self._handle.Shutdown)

    def _done(self, call: Any) -> bool:  # noqa: ANN401 - a bound method of the vendor
        """Whether it is worth the time to ask this engine for more: a frozen one takes 60 s."""
        try:
            with self._call("clean up"):
                call()
        except EngineError as error:
            return error.code not in {codes.TIMEOUT, codes.CONNECTION_LOST}
        return True

    def _name(self) -> str:
        # Names of field groups are unique over all clients of an engine.
        self._number += 1
        return f"{self._prefix}-{self._number}"

    @contextmanager
    def _call(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._dcgm.dcgm_structs.DCGMError as error:
            raise EngineError(_code(error), str(error), what) from error
        except AttributeError as error:
            # Old bindings lack a function that new ones have.
            raise EngineError(codes.FUNCTION_NOT_FOUND, str(error), what) from error


def _how(where: EngineEndpoint) -> dict[str, object]:
    if where.kind == "embedded":
        return {"opMode": _AUTO_MODE}
    key = "ipAddress" if where.kind == "tcp" else "unixSocketPath"
    return {key: where.address, "timeoutMs": CONNECT_TIMEOUT_MS}


def _code(error: Any) -> int:  # noqa: ANN401 - DCGMError
    # One code of the 3.3 bindings is a tuple by mistake.
    value = getattr(error, "value", 0)
    return int(value[0] if isinstance(value, tuple) else value)
