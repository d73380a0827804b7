"""Kubernetes: the pod that a process runs in, and how pods are named.

Enters: a `Place`, what is known of the node's pods. Leaves: `Claim`s. The id of a job is
`namespace/pod` where the name is known, else the UID of the pod.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from otel_ofu.jobs.cgroups import Place
from otel_ofu.jobs.owner import JOB_ID, Claim

NAME = "k8s"
CONTAINER = "container"
NAMESPACE_NAME = "k8s.namespace.name"
POD_NAME = "k8s.pod.name"
POD_UID = "k8s.pod.uid"


@dataclass(frozen=True, slots=True)
class Pod:
    """`attributes` come from the labels that a setting maps."""

    namespace: str
    name: str
    uid: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    def claim(self, container: str = "", container_id: str = "") -> Claim:
        told = {
            NAMESPACE_NAME: self.namespace,
            POD_NAME: self.name,
            POD_UID: self.uid,
            "k8s.container.name": container,
            "container.id": container_id,
        }
        attributes = {name: value for name, value in told.items() if value}
        labels = {name: value for name, value in self.attributes.items() if name != JOB_ID}
        job = self.attributes.get(JOB_ID) or f"{self.namespace}/{self.name}"
        return Claim(NAME, job, {**attributes, **labels})


class Pods:
    """The pods of one poll. `listed` by the kubelet; `logged`: UIDs with names, ended ones too."""

    def __init__(self, listed: Sequence[Pod] = (), logged: Sequence[Pod] = ()) -> None:
        self._by_uid = {pod.uid: pod for pod in (*logged, *listed)}
        self._by_name = {(pod.namespace, pod.name): pod for pod in listed}

    def named(self, namespace: str, name: str) -> Pod:
        return self._by_name.get((namespace, name)) or Pod(namespace, name)

    def claim(self, place: Place) -> Claim | None:
        """Of a process in a pod."""
        if not place.pod_uid:
            return None
        pod = self._by_uid.get(place.pod_uid)
        if pod:
            return pod.claim(container_id=place.container_id)
        told = {POD_UID: place.pod_uid, "container.id": place.container_id}
        return Claim(NAME, place.pod_uid, {name: value for name, value in told.items() if value})


def is_nameless(claim: Claim) -> bool:
    return claim.provider == NAME and POD_NAME not in claim.attributes


def container_claim(place: Place) -> Claim | None:
    """Of a process in a container that no scheduler is known for."""
    if not place.container_id:
        return None
    return Claim(CONTAINER, place.container_id, {"container.id": place.container_id})


def logged_pods(folder: Path) -> tuple[Pod, ...]:
    """From the names of the kubelet's log folders, NAMESPACE_NAME_UID; OSError if unreadable.

    Neither a namespace nor a name may hold an underscore. A pod that ended leaves its folder
    for a while: a later one of the same name has another UID.
    """
    parts = (name.split("_") for name in os.listdir(folder))  # noqa: PTH208 - names alone
    return tuple(Pod(p[0], p[1], p[2]) for p in parts if len(p) == 3)  # noqa: PLR2004
