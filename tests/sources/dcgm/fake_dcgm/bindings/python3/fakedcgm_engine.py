"""The engine behind the fake bindings: enters a script of states, leaves values and refusals.

Behaves as real engines of 3.3.9 and 4.6.0 were seen to: blanks, cache, codes, limits, leaks.
In tests of one process a state object and a virtual clock drive it; in a child process the JSON
file that FAKE_DCGM_STATE names, which is read again whenever it changes.
"""
# ruff: noqa: ANN401 - values of any type are what this is about

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GPU, GPU_I, GPU_CI = 1, 4, 5
BLANK_INT, BLANK_DOUBLE, BLANK_TEXT = 0x7FFFFFFFFFFFFFF0, 2.0**47, "<<<NULL>>>"
BUILT_IN_GROUPS, BUILT_IN_FIELD_GROUPS, MAX_GROUPS = 2, 3, 64
Key = tuple[int, int, int]


class Refused(Exception):  # noqa: N818 - what engines do
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Watching:
    period_s: float
    keep_s: float
    next_s: float
    taken: int = 0


@dataclass
class Connection:
    life: int
    groups: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    field_groups: dict[int, tuple[str, list[int]]] = field(default_factory=dict)
    watches: dict[tuple[int, int], dict[Key, Watching]] = field(default_factory=dict)


class FakeEngine:
    def __init__(
        self,
        state: dict[str, Any],
        now_s: Callable[[], float] = time.time,
        monotonic_s: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        self._state = state
        self._now_s, self._monotonic_s, self._wait = now_s, monotonic_s, wait
        self.connections: dict[int, Connection] = {}
        self.left_behind: list[str] = []
        self.calls: list[str] = []
        self.requests = 0
        self.error_lines = 0
        self.samples: dict[Key, list[tuple[int, Any, int]]] = {}
        self._number = 0
        self._life = state.get("life", 1)

    # ---- the script ----

    @property
    def state(self) -> dict[str, Any]:
        return self._state

    def get(self, name: str, default: Any = None) -> Any:
        return self.state.get(name, default)

    def version(self) -> str:
        return str(self.get("engine_version", "4.6.0"))

    def is_old(self) -> bool:
        return self.version().startswith("3.")

    def leaks(self) -> list[str]:
        return [*self.left_behind, *(f"connection {n} is open" for n in self.connections)]

    # ---- connections ----

    def connect(self, address: str) -> int:
        self._restart_if_told()
        if not self.get("up", True) or address != self.get("listening", "127.0.0.1:5555"):
            self._wait(5.0)
            raise Refused(-21)
        return self._open()

    def embed(self) -> int:
        return self._open()

    def _open(self) -> int:
        self._number += 1
        self.connections[self._number] = Connection(self._life)
        return self._number

    def disconnect(self, handle: int | None) -> None:
        if handle is None or handle not in self.connections:
            raise Refused(-1)
        connection = self.connections.pop(handle)
        if self._is_alive(connection):
            self.left_behind += [f"group {g}" for g in connection.groups]
            self.left_behind += [f"field group {n}" for n, _ in connection.field_groups.values()]

    def use(self, handle: int | None, call: str) -> Connection:
        """Every request goes through here: a dead or frozen engine shows at any of them."""
        self.calls.append(call)
        self._restart_if_told()
        if handle is None or handle not in self.connections:
            raise Refused(-1)
        self._freeze()
        if mute_s := self.get("mute_s", 0.0):  # accepts and answers nothing
            self._wait(mute_s)
            raise Refused(-21)
        connection = self.connections[handle]
        if not self._is_alive(connection) or self.get("speaks", "dcgm") != "dcgm":
            raise Refused(-21)
        code = self.get("refuse", {}).get(call)
        if code:
            raise Refused(code)
        self.take_samples()
        return connection

    def _is_alive(self, connection: Connection) -> bool:
        return bool(self.get("up", True)) and connection.life == self._life

    def _restart_if_told(self) -> None:
        life = self.get("life", 1)
        if life != self._life:
            self._life = life
            self.samples.clear()

    def _freeze(self) -> None:
        waited_s = 0.0
        while self.get("frozen", False):
            if waited_s >= 60:
                raise Refused(-11)
            step_s = float(self.get("freeze_step_s", 60.0))
            self._wait(step_s)
            waited_s += step_s

    # ---- what there is ----

    def gpus(self) -> list[dict[str, Any]]:
        if self.get("driver", "580.65.06") is None:
            raise Refused(-56)
        return list(self.get("gpus", []))

    def gpu(self, gpu_id: int) -> dict[str, Any]:
        for gpu in self.gpus():
            if gpu["id"] == gpu_id:
                return gpu
        raise Refused(-1)

    def hierarchy(self) -> list[dict[str, Any]]:
        """Rows: entity, parent, uuid of the GPU, instance id, slices, name and uuid."""
        rows = []
        for gpu in self.gpus():
            for gi in gpu.get("mig", []):
                gi_id = gpu["id"] * 8 + gi["slot"]
                rows.append(
                    {"entity": (GPU_I, gi_id), "parent": (GPU, gpu["id"]), "gpu": gpu, "gi": gi,
                     "slices": gi["slices"], "name": gi["profile"], "uuid": gi.get("uuid", "")}
                )  # fmt: skip
                for number, ci in enumerate(gi.get("cis", [])):
                    rows.append(
                        {"entity": (GPU_CI, gi_id * 8 + number), "parent": (GPU_I, gi_id),
                         "gpu": gpu, "gi": gi, "slices": ci["slices"],
                         "name": ci.get("profile", gi["profile"]), "uuid": ci["uuid"]}
                    )  # fmt: skip
        return rows

    def entities(self) -> dict[tuple[int, int], dict[str, Any]]:
        found = {
            (GPU, g["id"]): {"gpu": g, "uuid": g["uuid"], "name": g["name"]} for g in self.gpus()
        }
        return found | {row["entity"]: row for row in self.hierarchy()}

    def metric_groups(self, gpu_id: int) -> list[tuple[int, int, list[int]]]:
        gpu = self.gpu(gpu_id)
        code = self._profiling_refusal(gpu)
        if code and not gpu.get("gpm", True):
            raise Refused(code)
        groups = gpu.get("metric_groups")
        if groups is None:
            groups = [(0, 0, list(range(1001, 1035))), (1, 0, list(range(1040, 1084))),
                      (2, 0, list(range(1084, 1097)))]  # fmt: skip
        return [(major, minor, list(ids)) for major, minor, ids in groups]

    def _profiling_refusal(self, gpu: dict[str, Any]) -> int:
        if self.get("paused", False) and not gpu.get("gpm", True):
            return -54
        return int(gpu.get("profiling", 0))

    def is_known(self, field_id: int) -> bool:
        if self.is_old() and (field_id == 94 or 1084 <= field_id <= 1096):
            return False
        return field_id not in self.get("unknown_fields", []) and 0 < field_id < 1600

    # ---- groups and watches ----

    def create_group(self, handle: int | None) -> int:
        connection = self.use(handle, "group")
        if sum(len(c.groups) for c in self.connections.values()) >= self._limit(BUILT_IN_GROUPS):
            raise Refused(-24)
        self._number += 1
        connection.groups[self._number] = []
        return self._number

    def _limit(self, built_in: int) -> int:
        return MAX_GROUPS - built_in - int(self.get("groups_of_others", 0))

    def add_entity(self, handle: int | None, group: int, entity: tuple[int, int]) -> None:
        members = self.use(handle, "add entity").groups[group]
        if entity not in self.entities() or entity in members or len(members) >= 64:
            raise Refused(-1)
        members.append(entity)

    def delete_group(self, handle: int | None, group: int) -> None:
        connection = self.use(handle, "delete group")
        if connection.groups.pop(group, None) is None:
            raise Refused(-1)
        for pair in [p for p in connection.watches if p[0] == group]:
            del connection.watches[pair]

    def create_field_group(self, handle: int | None, name: str, ids: list[int]) -> int:
        connection = self.use(handle, "field group")
        if not ids or len(ids) > 128 or not all(map(self.is_known, ids)):
            raise Refused(-1)
        names = [n for c in self.connections.values() for n, _ in c.field_groups.values()]
        if name in names or name in self.get("names_of_others", []):
            raise Refused(-26)
        if len(names) >= self._limit(BUILT_IN_FIELD_GROUPS):
            raise Refused(-24)
        self._number += 1
        connection.field_groups[self._number] = (name, ids)
        return self._number

    def delete_field_group(self, handle: int | None, group: int) -> None:
        connection = self.use(handle, "delete field group")
        if connection.field_groups.pop(group, None) is None:
            raise Refused(-1)
        for pair in [p for p in connection.watches if p[1] == group]:
            del connection.watches[pair]

    def watch(
        self, handle: int | None, group: int, fields: int, period_us: int, keep_s: float
    ) -> None:
        connection = self.use(handle, "watch")
        members, ids = connection.groups[group], connection.field_groups[fields][1]
        for entity in members:
            self._refuse_profiling(entity, ids)
        now_s = self._monotonic_s()
        connection.watches[group, fields] = {
            (*entity, i): Watching(period_us / 1e6, keep_s, now_s)
            for entity in members
            for i in ids
        }
        self.take_samples()

    def _refuse_profiling(self, entity: tuple[int, int], ids: list[int]) -> None:
        profiled = [i for i in ids if 1001 <= i < 1200]
        gpu = self.entities()[entity]["gpu"]
        code = self._profiling_refusal(gpu)
        if profiled and code:
            raise Refused(code)
        if profiled and len(profiled) > gpu.get("multi_pass_above", 64):
            raise Refused(-38)

    # ---- samples ----

    def take_samples(self) -> None:
        for connection in self.connections.values():
            if self._is_alive(connection):
                for watched in connection.watches.values():
                    for key, watch in watched.items():
                        self._take(key, watch)

    def _take(self, key: Key, watch: Watching) -> None:
        monotonic_s, now_s = self._monotonic_s(), self._engine_now_s()
        if self.get("stalled", False):
            return
        if monotonic_s - watch.next_s > 100 * watch.period_s:
            watch.next_s = monotonic_s
        while watch.next_s <= monotonic_s:
            ts_us = round((now_s - (monotonic_s - watch.next_s)) * 1e6)
            value, status = self._value(key, watch)
            if status != -14:
                self.samples.setdefault(key, []).append((ts_us, value, status))
            watch.taken += 1
            watch.next_s += watch.period_s
        oldest_us = (now_s - max(1.0, watch.keep_s)) * 1e6
        kept = self.samples.get(key, [])
        self.samples[key] = sorted(s for s in kept if s[0] >= oldest_us or s is kept[-1])

    def _engine_now_s(self) -> float:
        return self._now_s() + float(self.get("clock_offset_s", 0.0))

    def _value(self, key: Key, watch: Watching) -> tuple[Any, int]:
        entity, field_id = key[:2], key[2]
        row = self.entities().get(entity)
        if row is None:
            return BLANK_INT, -45
        gpu = row["gpu"]
        source = {**gpu, **row.get("gi", {})}
        status = int(source.get("status", {}).get(str(field_id), 0))
        value = self._plain_value(entity, field_id, row, source)
        if 1001 <= field_id < 1200 and (watch.taken == 0 or self.get("paused", False)):
            value = BLANK_INT if isinstance(value, int) else BLANK_DOUBLE
        if field_id == 230 and value is None:
            return None, -14
        if status:
            value = 0 if self.is_old() else BLANK_INT
        return value, status

    def _plain_value(
        self, entity: tuple[int, int], field_id: int, row: dict[str, Any], source: dict[str, Any]
    ) -> Any:
        identity = {
            50: row["name"],
            52: row["gpu"].get("index", row["gpu"]["id"]),
            53: row["gpu"].get("serial", "1650123456789"),
            54: row["uuid"] or "<<<NOT_FOUND>>>",
            57: row["gpu"].get("pci", "00000000:18:00.0"),
            69: row["gpu"].get("max_slices", 7),
            94: int(row["gpu"].get("gpm", True)),
        }
        if field_id in identity:
            return identity[field_id]
        values = DEFAULTS | {int(k): v for k, v in source.get("values", {}).items()}
        if entity[0] != GPU and not (1001 <= field_id < 1035 or 250 <= field_id <= 254):
            return BLANK_INT + 2
        return values.get(field_id, 0)

    def latest(
        self, handle: int | None, entities: list[tuple[int, int]], ids: list[int], flags: int
    ) -> list[tuple[int, int, int, int, int, Any]]:
        """Rows: entity group, entity, field, status, time in microseconds, value."""
        self.use(handle, "latest")
        if flags:
            raise AssertionError("live data bypasses the cache; it crashed an engine")
        if self.bindings_major() > 3 and self.is_old():
            raise Refused(-20)
        if not self.is_old() and not all(map(self.is_known, ids)):
            raise Refused(-3)
        rows = [self._row(e, i) for e in entities for i in ids]
        if self.is_old():  # as GetMultipleLatestSamples of 3.3.9 does for each value without data
            self.error_lines += sum(1 for row in rows if row[3] == -14)
        return rows

    def bindings_major(self) -> int:
        return int(self.get("bindings_major", 4))

    def _row(self, entity: tuple[int, int], field_id: int) -> tuple[int, int, int, int, int, Any]:
        if not self.is_known(field_id):
            return (*entity, field_id, -13, 0, 0)
        if entity == (0, 0) and field_id == 1:
            return (
                *entity,
                1,
                0,
                round(self._engine_now_s() * 1e6),
                self.get("driver", "580.65.06"),
            )
        samples = self.samples.get((*entity, field_id))
        if samples:
            ts_us, value, status = max(samples, key=lambda s: s[0])
            return (*entity, field_id, status, ts_us, value)
        watched = any(
            (*entity, field_id) in w for c in self.connections.values() for w in c.watches.values()
        )
        return (*entity, field_id, -14 if watched else -16, 0, 0)

    def since(
        self, handle: int | None, group: int, fields: int, since_us: int
    ) -> tuple[list[tuple[tuple[int, int], int, tuple[int, Any, int]]], int]:
        """Rows of one sample each up to the engine's time, and the time after it.

        As in the library: a request for each entity and field; without data a placeholder of
        time 0, and any other error of one of them ends the call.
        """
        connection = self.use(handle, "history")
        if self.bindings_major() == 3 and not self.is_old():  # its dcgmGroupGetInfo is refused
            raise Refused(-12)
        members, ids = connection.groups[group], connection.field_groups[fields][1]
        now_us = round(self._engine_now_s() * 1e6)
        rows = []
        for e in members:
            for i in ids:
                self.requests += 1
                refused = self.gpu(e[1]).get("history", {}).get(str(i), 0) if e[0] == GPU else 0
                if refused:
                    raise Refused(refused)
                kept = sorted(self.samples.get((*e, i), []), key=lambda s: s[0])
                found = [(e, i, s) for s in kept if since_us <= s[0] <= now_us]
                rows += found or [(e, i, (0, None, -14))]
        return rows, now_us + 1


DEFAULTS: dict[int, Any] = {
    100: 1410, 101: 2619, 112: 0, 113: 1980, 114: 2619, 140: 45, 150: 41, 155: 412.5,
    156: 5_000_000, 164: 700.0, 202: 0, 203: 97, 204: 40, 206: 0, 207: 0, 230: None,
    235: 5, 236: 16, 237: 5, 238: 16, 240: 2_000_000_000, 250: 81559, 252: 40000,
    1001: 0.98, 1002: 0.9, 1003: 0.3, 1004: 0.4375, 1005: 0.5, 1009: 1048576000,
    1010: 1048576000, 1084: 10**12, 1086: 4 * 10**11,
    **dict.fromkeys((1006, 1007, 1008, 1013, 1014, 1015, 1016), 0.0),
}  # fmt: skip


class _FileState(FakeEngine):
    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, -1
        super().__init__({})

    @property
    def state(self) -> dict[str, Any]:
        changed = self._path.stat().st_mtime_ns
        if changed != self._seen:
            self._seen, self._state = changed, json.loads(self._path.read_text("utf-8"))
        return self._state


class Holder:
    """The engine of this process: set by a test, or made from the file."""

    engine: FakeEngine | None = None


def current() -> FakeEngine:
    if Holder.engine is None:
        Holder.engine = _FileState(Path(os.environ["FAKE_DCGM_STATE"]))
    return Holder.engine
