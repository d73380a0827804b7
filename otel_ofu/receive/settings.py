"""The block of the configuration for OTLP that comes in: where and how.

Enters: what a user wrote. Leaves: `OtlpReceiverSettings`, or mistakes with what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from otel_ofu.files.settings import CheckContext, Mistake, QuantityRange, Settings, Size
from otel_ofu.net.settings import ListenAddress, TokenFile
from otel_ofu.net.tls import ServerTls

MIB = 2**20

_COUNT = QuantityRange(1, 10**7)


class ListenerSettings(Settings, frozen=True, kw_only=True):
    """host:port to listen on; empty: off."""

    endpoint: ListenAddress = ""


class OtlpReceiverSettings(Settings, frozen=True, kw_only=True):
    """The block `receivers.otlp`. Sizes count after decompression. All limits: starting values.

    `max_pending_*`: requests that are being received or wait to be decoded, all clients together;
    one more gets the answer to come back in 1 to 3 s. New GPUs, jobs and nodes are refused while
    there are `max_entities`.
    """

    http: ListenerSettings = ListenerSettings()
    grpc: ListenerSettings = ListenerSettings()
    tls: ServerTls = ServerTls()
    bearer_token_file: TokenFile = ""
    max_http_size: Annotated[Size, QuantityRange(Size(1), Size(2**30))] = Size(20 * MIB)
    max_grpc_size: Annotated[Size, QuantityRange(Size(1), Size(2**30))] = Size(4 * MIB)
    max_pending_size: Annotated[Size, QuantityRange(Size(1), Size(2**40))] = Size(64 * MIB)
    max_pending_requests: Annotated[int, _COUNT] = 256
    max_connections: Annotated[int, _COUNT] = 1024
    max_entities: Annotated[int, _COUNT] = 200_000

    @property
    def listens(self) -> bool:
        return bool(self.http.endpoint or self.grpc.endpoint)

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - text alone
        endpoint = self.grpc.endpoint
        if endpoint and endpoint == self.http.endpoint and not endpoint.endswith(":0"):
            yield ("grpc", "endpoint"), f"{endpoint} is that of http; choose another port"
