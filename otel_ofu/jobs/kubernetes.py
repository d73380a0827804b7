"""Kubernetes: the pod that a process runs in, how pods are named, and which devices they have.

Enters: a `Cgroup`; the kubelet's address, its log folder, its unix socket. Leaves: `Pod`s, `Claim`s
and `Grant`s. The id of a job is `namespace/pod` where the name is known, else the UID of the pod.
Source: kubelet /pods (port 10250, permission nodes/proxy or nodes/pods; or the read-only port);
PodResources API, v1. Its messages are in podresources.proto, which is read here: generated code
fits few versions of protobuf's runtime.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from http.client import OK
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_ofu.jobs.cgroups import Cgroup
from otel_ofu.jobs.owner import Claim
from otel_ofu.jobs.settings import KubernetesSettings
from otel_ofu.model.owner import JOB_ID, NAMESPACE_NAME, POD_NAME
from otel_ofu.net.http_client import HttpClient, HttpError, HttpFailure
from otel_ofu.net.secrets import authorization
from otel_ofu.net.tls import TlsFiles

if TYPE_CHECKING:
    import grpc
    from google.protobuf.descriptor_pb2 import FileDescriptorProto


NAME = "k8s"
CONTAINER = "container"
POD_UID = "k8s.pod.uid"
_MOST_BYTES = 64 * 2**20
"""Starting value: a pod has a few kB, a node at most a few hundred of them."""


@dataclass(frozen=True, slots=True)
class Pod:
    """`attributes` come from the labels that a setting maps."""

    namespace: str
    name: str
    uid: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)

    def claim(self, container: str = "", container_id: str = "") -> Claim:
        known = {
            NAMESPACE_NAME: self.namespace,
            POD_NAME: self.name,
            POD_UID: self.uid,
            "k8s.container.name": container,
            "container.id": container_id,
        }
        attributes = {name: value for name, value in known.items() if value}
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

    def claim(self, cgroup: Cgroup) -> Claim | None:
        """Of a process in a pod."""
        if not cgroup.pod_uid:
            return None
        pod = self._by_uid.get(cgroup.pod_uid)
        if pod:
            return pod.claim(container_id=cgroup.container_id)
        known = {POD_UID: cgroup.pod_uid, "container.id": cgroup.container_id}
        return Claim(NAME, cgroup.pod_uid, {name: value for name, value in known.items() if value})


def is_nameless(claim: Claim) -> bool:
    return claim.provider == NAME and POD_NAME not in claim.attributes


def container_claim(cgroup: Cgroup) -> Claim | None:
    """Of a process in a container that no scheduler is known for."""
    if not cgroup.container_id:
        return None
    return Claim(CONTAINER, cgroup.container_id, {"container.id": cgroup.container_id})


def logged_pods(folder: Path) -> tuple[Pod, ...]:
    """From the names of the kubelet's log folders, NAMESPACE_NAME_UID; OSError if unreadable.

    Neither a namespace nor a name may hold an underscore. A pod that ended leaves its folder
    for a while: a later one of the same name has another UID.
    """
    parts = (name.split("_") for name in os.listdir(folder))  # noqa: PTH208 - names alone
    return tuple(Pod(p[0], p[1], p[2]) for p in parts if len(p) == 3)  # noqa: PLR2004


class KubeletError(Exception):
    """The kubelet did not answer, in one line."""


class Kubelet:
    """One request a poll. Proxies from the environment are not used: it is on this node."""

    def __init__(self, settings: KubernetesSettings, timeout_s: float) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        files = TlsFiles(ca_file=settings.kubelet_ca_file)
        self._client = HttpClient(files, limit_bytes=_MOST_BYTES)

    def pods(self) -> tuple[Pod, ...]:
        """Waits up to the timeout for all of it. Raises `KubeletError`."""
        try:
            return tuple(_pods(json.loads(self._body()), self._settings.pod_labels))
        except HttpError as error:
            named = "kubelet_" if error.failure is HttpFailure.TLS_FILES else ""
            raise KubeletError(f"{named}{error}") from error
        except ValueError as error:
            raise KubeletError(str(error)) from error
        except (TypeError, AttributeError, KeyError) as error:
            raise KubeletError("the response is not a list of pods") from error

    def close(self) -> None:
        self._client.close()

    def _body(self) -> bytes:
        url = self._settings.kubelet_url.rstrip("/") + "/pods"
        response = self._client.get(url, self._headers(), self._timeout_s)
        if response.status != OK:
            raise ValueError(f"answered {response.status_line}")
        if response.truncated:
            raise ValueError(f"more than {_MOST_BYTES} bytes")
        return response.body

    def _headers(self) -> dict[str, str]:
        """Read anew each time: the token is rotated. Never sent in the clear."""
        path = self._settings.kubelet_token_file
        if not self._settings.kubelet_url.lower().startswith("https:") or not Path(path).is_file():
            return {}
        return authorization(token_file=path)


def _pods(answer: Any, labels: Mapping[str, str]) -> Iterator[Pod]:  # noqa: ANN401 - JSON
    for item in answer["items"] or ():
        metadata = item["metadata"]
        has = metadata.get("labels") or {}
        attributes = {labels[name]: str(has[name]) for name in labels if has.get(name)}
        uid = (metadata.get("annotations") or {}).get("kubernetes.io/config.hash") or metadata[
            "uid"
        ]
        yield Pod(metadata["namespace"], metadata["name"], uid, attributes)


METHOD = "/v1.PodResourcesLister/List"
_MOST_GRANT_BYTES = 16 * 2**20
"""Starting value: a node with some hundred containers answers with less than one MiB."""
_OPTIONS = (
    ("grpc.max_receive_message_length", _MOST_GRANT_BYTES),
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5000),
)
_PACKAGE = "otel_ofu.podresources"
_MESSAGE = re.compile(r"message (\w+) \{([^}]*)\}")
_FIELD = re.compile(r"(repeated )?(\w+) (\w+) = (\d+);")


class PodResourcesError(Exception):
    """The kubelet did not answer; the text is its own."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One device of one container. `ids`: spellings of the same device, the best one first."""

    namespace: str
    pod: str
    container: str
    resource: str
    ids: tuple[str, ...]


class PodResources:
    """Keeps one channel; `grpc` is imported at the first request."""

    def __init__(self, socket: Path, timeout_s: float) -> None:
        self._socket = socket
        self._timeout_s = timeout_s
        self._channel: grpc.Channel | None = None

    def grants(self) -> list[Grant]:
        """Waits up to the timeout. Raises `PodResourcesError`."""
        import grpc  # noqa: PLC0415 - 190 ms and 33 MB that only a node of Kubernetes needs

        if self._channel is None:
            self._channel = grpc.insecure_channel(f"unix://{self._socket.absolute()}", _OPTIONS)
        try:
            answer = self._channel.unary_unary(METHOD)(b"", timeout=self._timeout_s)
            return list(parse_grants(answer))
        except grpc.RpcError as error:
            self.close()
            raise PodResourcesError(f"{error.code().name}: {error.details()}") from error
        except ValueError as error:
            raise PodResourcesError(f"not an answer of this API: {error}") from error

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def parse_grants(answer: bytes) -> Iterator[Grant]:
    """Raises ValueError for bytes that are not such a message."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - as grpc

    try:
        message = _response_class().FromString(answer)
    except DecodeError as error:
        raise ValueError(str(error)) from error
    for pod in message.pod_resources:
        for container in pod.containers:
            for resource, ids in _devices(container):
                yield Grant(pod.namespace, pod.name, container.name, resource, ids)


def _devices(container: Any) -> Iterator[tuple[str, tuple[str, ...]]]:  # noqa: ANN401 - protobuf
    for devices in container.devices:
        for id_ in devices.device_ids:
            yield devices.resource_name, (id_,)
    for dynamic in container.dynamic_resources:
        for claimed in dynamic.claim_resources:
            ids = (*(cdi.name for cdi in claimed.cdi_devices), claimed.device_name)
            yield claimed.driver_name, ids


@cache
def _response_class() -> Any:  # noqa: ANN401 - protobuf makes the class
    from google.protobuf import descriptor_pool, message_factory  # noqa: PLC0415 - as grpc

    pool = descriptor_pool.DescriptorPool()
    pool.Add(_described(files("otel_ofu.jobs").joinpath("podresources.proto").read_text("utf-8")))
    found = pool.FindMessageTypeByName(f"{_PACKAGE}.ListPodResourcesResponse")
    return message_factory.GetMessageClass(found)


def _described(text: str) -> FileDescriptorProto:
    """A .proto file of messages whose fields are strings or other messages of the file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415 - as grpc

    file = FileDescriptorProto(name="podresources.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGE.findall(text):
        message = file.message_type.add(name=name)
        for repeated, kind, named, number in _FIELD.findall(fields):
            added = message.field.add(name=named, number=int(number))
            added.label = added.LABEL_REPEATED if repeated else added.LABEL_OPTIONAL
            added.type = added.TYPE_STRING if kind == "string" else added.TYPE_MESSAGE
            if kind != "string":
                added.type_name = f".{_PACKAGE}.{kind}"
    return file
