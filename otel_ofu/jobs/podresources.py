"""The kubelet's PodResources API, v1: which container was given which device.

Enters: the path of the unix socket. Leaves: `Grant`s. The messages are in podresources.proto, which
is read here: generated code fits few versions of protobuf's runtime.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import grpc
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

METHOD = "/v1.PodResourcesLister/List"
_MOST_BYTES = 16 * 2**20
"""Starting value: a node with some hundred containers answers with less than one MiB."""
_OPTIONS = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
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
            return list(parse(answer))
        except grpc.RpcError as error:
            self.close()
            raise PodResourcesError(f"{error.code().name}: {error.details()}") from error
        except ValueError as error:
            raise PodResourcesError(f"not an answer of this API: {error}") from error

    def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def parse(answer: bytes) -> Iterator[Grant]:
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
        for repeated, kind, field, number in _FIELD.findall(fields):
            added = message.field.add(name=field, number=int(number))
            added.label = added.LABEL_REPEATED if repeated else added.LABEL_OPTIONAL
            added.type = added.TYPE_STRING if kind == "string" else added.TYPE_MESSAGE
            if kind != "string":
                added.type_name = f".{_PACKAGE}.{kind}"
    return file
