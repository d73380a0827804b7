"""Raw resources -> the entity and registry key of each point; the rest with a reason.

Enters: a `RawResource`. Leaves: `SortedPoints`. This is the slow way, once for every new layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Attribute, Entity, EntityKind
from otel_ofu.receive.keys import HW_ID, JobNames, KeyMatch, MetricKeys
from otel_ofu.receive.points import Attributes, RawPoint, RawResource
from otel_ofu.receive.rejected import NameCounts, RejectedPoints

SCOPE = "ofu.job.scope"
JOB_ID = "ofu.job.id"
HOST = "host.name"
INSTANCE = "service.instance.id"
OURS = ("service.name", "otel-ofu")
# Starting values: a pod with all of its labels has about 60.
MOST_ATTRIBUTES = 128
LONGEST_VALUE = 4096

# What a training job that does not know otel-ofu may have on its resource, the most exact first.
# The scheduler's own ids are those that GPUs get for `ofu.job.id`.
JOB_IDS = (JOB_ID, "slurm.job.id", "k8s.job.uid", "k8s.pod.uid", "job.id", "nemo.run.id", INSTANCE)

Owner = tuple[EntityKind, str]


@dataclass(frozen=True, slots=True)
class MatchedPoint:
    """A point that can be used."""

    match: KeyMatch
    point: RawPoint


@dataclass(slots=True)
class PointGroup:
    """The points of one entity. `pushed`: a training job reported it."""

    entity: Entity
    pushed: bool
    points: list[MatchedPoint] = field(default_factory=list)


@dataclass(slots=True)
class SortedPoints:
    """`ended`: keys of series that end here. `ignored`: points that are rightly passed over."""

    groups: list[PointGroup] = field(default_factory=list)
    ended: dict[Owner, set[str]] = field(default_factory=dict)
    rejected: RejectedPoints = field(default_factory=RejectedPoints)
    ignored: int = 0


@dataclass(frozen=True, slots=True)
class ResourceIdentity:
    """`attributes` are those of the entity: without what an agent adds for all of its own."""

    attributes: dict[str, Attribute]
    is_ours: bool
    instance: str

    def entity(self, kind: EntityKind, hw_id: str = "") -> Entity | None:
        """The entity of a kind; None if the resource names none. `hw_id`: that of the point."""
        match kind:
            case "gpu":
                return self._gpu(hw_id)
            case "job":
                return self._job()
            case "node":
                host = str(self.attributes.get(HOST, ""))
                return Entity("node", host, self.attributes) if host else None

    def _gpu(self, hw_id: str) -> Entity | None:
        """One entity for each GPU x job, as agents name them."""
        hw_id = hw_id or str(self.attributes.get(HW_ID, ""))
        if not hw_id:
            return None
        attributes = self.attributes
        if attributes.get(HW_ID) != hw_id:
            attributes = {**attributes, HW_ID: hw_id}
        job = attributes.get(JOB_ID)
        return Entity("gpu", f"{hw_id}/{job}" if job else hw_id, attributes)

    def _job(self) -> Entity | None:
        every = {INSTANCE: self.instance, **self.attributes}
        job = next((str(every[name]) for name in JOB_IDS if every.get(name)), "")
        if not job:
            return None
        return Entity("job", job, {**self.attributes, JOB_ID: job})


def subject_of(attributes: Attributes) -> ResourceIdentity | str:
    """The subject of a resource, or why it cannot be one."""
    if len(attributes) > MOST_ATTRIBUTES:
        return f"a resource with more than {MOST_ATTRIBUTES} attributes"
    for name, value in attributes:
        if len(name) > LONGEST_VALUE or (isinstance(value, str) and len(value) > LONGEST_VALUE):
            return f"a resource attribute of more than {LONGEST_VALUE} characters"
    every = dict(attributes)
    is_ours = OURS in every.items()
    instance = str(every.pop(INSTANCE, ""))
    if is_ours:
        every.pop("service.name", None)
        every.pop("service.version", None)
    return ResourceIdentity(every, is_ours, instance)


class PointSorter:
    """`unknown` counts the points of metrics that nobody knows, by name."""

    def __init__(self, registry: Registry, names: JobNames | None = None) -> None:
        self._keys = MetricKeys(registry, names)
        self._own = {m.name for m in registry.metrics.values() if m.entity == "agent"}
        self.unknown = NameCounts()

    def sort(self, resource: RawResource) -> SortedPoints:
        result = SortedPoints()
        for (form, name), count in resource.unread.items():
            if name in self._own:
                result.ignored += count
            else:
                reason = (
                    "a metric without points"
                    if form == "empty"
                    else f"points of this form are not supported: {form}"
                )
                result.rejected.add(reason, name, count)
        subject = subject_of(resource.attributes)
        if isinstance(subject, str):
            result.rejected.add(subject, "", len(resource.points))
            return result
        _Sorting(self._keys, self.unknown, subject, result).sort(resource.points)
        return result


class _Sorting:
    """One resource being sorted."""

    def __init__(
        self, keys: MetricKeys, unknown: NameCounts, subject: ResourceIdentity, result: SortedPoints
    ) -> None:
        self._keys = keys
        self._unknown = unknown
        self._subject = subject
        self._result = result
        self._groups: dict[tuple[EntityKind, str, bool], PointGroup] = {}
        self._entities: dict[tuple[EntityKind, str], Entity | None] = {}

    def sort(self, points: list[RawPoint]) -> None:
        for point in points:
            hw_id, attributes = _parted(point.attributes)
            match = self._keys.find(point.name, point.unit, point.form, attributes)
            why = match if isinstance(match, str) else self._assign(match, point, hw_id)
            if why:
                self._result.rejected.add(why, point.name)
                if why == "unknown metric":
                    self._unknown.add(point.name, 1)
        self._result.groups = list(self._groups.values())

    def _assign(self, match: KeyMatch, point: RawPoint, hw_id: str) -> str:
        """Puts a point where it belongs; the reason if it belongs nowhere."""
        kind = match.metric.entity
        if kind == "agent" or self._is_part_of_a_job(kind):
            self._result.ignored += 1
            return ""
        if not self._are_known(match.extras):
            return "attributes that this metric does not have"
        entity = self._entity(kind, hw_id)
        if entity is None:
            return f"the resource does not identify its {kind}"
        if point.ended:
            self._end(match, (kind, entity.id))
            return ""
        if point.value is None or not point.time_ns:
            return "no value" if point.value is None else "no time"
        pushed = match.convert is not None
        key = kind, entity.id, pushed
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = PointGroup(entity, pushed)
        group.points.append(MatchedPoint(match, point))
        return ""

    def _end(self, match: KeyMatch, owner: Owner) -> None:
        """The seconds of a GPU with a job end minutes after the job does."""
        if match.metric.is_gpu_time:
            self._result.ignored += 1
        else:
            self._result.ended.setdefault(owner, set()).add(match.key)

    def _is_part_of_a_job(self, kind: str) -> bool:
        """A node's view of its part of a job is not the job's."""
        return kind == "job" and self._subject.attributes.get(SCOPE) == "node"

    def _are_known(self, extras: Attributes) -> bool:
        """Whether the resource has the same value: then a Collector copied it to the points."""
        attributes: Mapping[str, Attribute] = self._subject.attributes
        return all(attributes.get(name) == value for name, value in extras)

    def _entity(self, kind: EntityKind, hw_id: str) -> Entity | None:
        key = kind, hw_id
        if key not in self._entities:
            self._entities[key] = self._subject.entity(kind, hw_id)
        return self._entities[key]


def _parted(attributes: Attributes) -> tuple[str, Attributes]:
    """`hw.id`, and the other attributes."""
    hw_id = ""
    for name, value in attributes:
        if name == HW_ID:
            hw_id = str(value)
    if not hw_id:
        return "", attributes
    return hw_id, tuple(pair for pair in attributes if pair[0] != HW_ID)
