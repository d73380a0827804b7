"""One connection to a host engine: the only place that calls the vendor's client.

Enters: `Bindings` and an endpoint. Leaves: plain values, and `EngineError` with the code of
whatever went wrong. Everything that it creates in the engine it deletes in `close`.
Source: dcgm_agent.h and dcgm_structs.h of DCGM 3.3 to 4.6.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from otel_ofu.sources.dcgm import codes
from otel_ofu.sources.dcgm.bindings import Bindings
from otel_ofu.sources.dcgm.settings import EngineEndpoint
from otel_ofu.sources.dcgm.wire import DcgmSample, Value

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


def sample(raw: Any) -> DcgmSample:  # noqa: ANN401 - c_dcgmFieldValue_v1 or _v2
    return DcgmSample(raw.fieldId, raw.status, raw.ts, _value(raw))


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
    """A running watch: both handles, which `HostEngine` deletes."""

    group: Any
    fields: Any


class HostEngine:
    """Used by one thread: start and end of DCGM's client are not thread safe."""

    def __init__(self, bindings: Bindings, where: EngineEndpoint) -> None:
        self._dcgm = bindings
        self._agent = bindings.dcgm_agent
        self._prefix = f"otel-ofu-{os.getpid()}-{uuid.uuid4().hex[:8]}"
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

    def library_version(self) -> str:
        with self._call("read the version of the library"):
            return version(self._agent.dcgmVersionInfo())

    def engine_version(self) -> str:
        """Version of the host engine; the bindings have no function for it, the library has."""
        import ctypes  # noqa: PLC0415 - needed for this one call

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
        for value in answer:
            samples[index[value.entityGroupId, value.entityId]].append(sample(value))
        return samples

    def history(self, watch: EngineWatch, since_s: float) -> list[tuple[Entity, DcgmSample]]:
        """All samples of a watch since an instant, in the engine's order."""
        found: list[tuple[Entity, DcgmSample]] = []

        def collect(group: int, entity: int, values: Any, count: int, _: object) -> int:  # noqa: ANN401
            found.extend(((group, entity), sample(values[i])) for i in range(count))
            return 0

        callback = self._agent.dcgmFieldValueEntityEnumeration_f(collect)
        with self._call("read the history"):
            self._agent.dcgmGetValuesSince_v2(
                self._id,
                watch.group.GetId(),
                watch.fields.fieldGroupId,
                round(since_s * 1e6),
                callback,
                None,
            )
        return found

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
