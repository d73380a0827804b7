"""Whose a resource is: its attributes -> the GPU, the job and the node that it may speak for.

Enters: resource attributes as they came. Leaves: entities as the agent that sent them had them.
"""

from __future__ import annotations

from dataclasses import dataclass

from otel_ofu.model import Attribute, Entity, EntityKind
from otel_ofu.receive.keys import HW_ID
from otel_ofu.receive.points import Attributes

JOB_ID = "ofu.job.id"
HOST = "host.name"
INSTANCE = "service.instance.id"
OURS = ("service.name", "otel-ofu")
MOST_ATTRIBUTES = 128
LONGEST_VALUE = 4096

# What a training job that was never told of otel-ofu may have on its resource, the most telling
# first. The scheduler's own ids are those that GPUs get for `ofu.job.id`.
JOB_IDS = (JOB_ID, "slurm.job.id", "k8s.job.uid", "k8s.pod.uid", "job.id", "nemo.run.id", INSTANCE)


@dataclass(frozen=True, slots=True)
class Subject:
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


def subject_of(attributes: Attributes) -> Subject | str:
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
    return Subject(every, is_ours, instance)
