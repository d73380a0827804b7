"""The kubelet's PodResources API, v1: which container was given which device.

Enters: the path of the unix socket. Leaves: `Grant`s. The messages are described here, field by
field, as far as they are read; others are skipped.
Source: k8s.io/kubelet/pkg/apis/podresources/v1/api.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import grpc

METHOD = "/v1.PodResourcesLister/List"
_MOST_BYTES = 16 * 2**20
_OPTIONS = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5000),
)
# message -> field -> (number, message that it is made of, or "" for a string, repeated)
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str, bool]]] = {
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources", True)},
    "PodResources": {
        "name": (1, "", False),
        "namespace": (2, "", False),
        "containers": (3, "ContainerResources", True),
    },
    "ContainerResources": {
        "name": (1, "", False),
        "devices": (2, "ContainerDevices", True),
        "dynamic_resources": (5, "DynamicResource", True),
    },
    "ContainerDevices": {"resource_name": (1, "", False), "device_ids": (2, "", True)},
    "DynamicResource": {"claim_resources": (4, "ClaimResource", True)},
    "ClaimResource": {
        "cdi_devices": (1, "CDIDevice", True),
        "driver_name": (2, "", False),
        "device_name": (4, "", False),
    },
    "CDIDevice": {"name": (1, "", False)},
}


class PodResourcesError(Exception):
    """The kubelet did not answer, in its words."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One device of one container. `ids`: spellings of the same device, the best one first."""

    namespace: str
    pod: str
    container: str
    resource: str
    ids: tuple[str, ...]


class PodResources:
    """Keeps one channel; `grpc` is imported when first asked."""

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
            return list(parse(answer))
        except grpc.RpcError as error:
            self.close()
            raise PodResourcesError(f"{error.code().name}: {error.details()}") from error
        except ValueError as error:
            raise PodResourcesError(f"no answer of this API: {error}") from error

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def parse(answer: bytes) -> Iterator[Grant]:
    """Raises ValueError for bytes that are no such message."""
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
    from google.protobuf import (  # noqa: PLC0415 - as grpc
        descriptor_pb2,
        descriptor_pool,
        message_factory,
    )

    file = descriptor_pb2.FileDescriptorProto(name="podresources.proto", package="v1")
    file.syntax = "proto3"
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, made_of, repeated) in fields.items():
            described = message.field.add(name=field, number=number)
            described.type = described.TYPE_MESSAGE if made_of else described.TYPE_STRING
            described.label = described.LABEL_REPEATED if repeated else described.LABEL_OPTIONAL
            if made_of:
                described.type_name = f".v1.{made_of}"
    pool = descriptor_pool.DescriptorPool()  # its own: others may know a package v1 as well
    pool.Add(file)
    found = pool.FindMessageTypeByName("v1.ListPodResourcesResponse")
    return message_factory.GetMessageClass(found)
