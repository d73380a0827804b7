"""The OTLP receiver as a whole: two servers, one thread that decodes, the store behind it.

Enters: settings, and requests. Leaves: values in the store, what jobs reported, counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Observation
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.net.http_limits import HttpLimits, MemoryBudget
from otel_ofu.net.http_server import HttpServer
from otel_ofu.net.secrets import BearerToken
from otel_ofu.net.settings import parse_address
from otel_ofu.net.tls import server_context
from otel_ofu.receive.buffer import Buffer
from otel_ofu.receive.decode import Decoder
from otel_ofu.receive.decode_worker import DecodeWorker
from otel_ofu.receive.grpc_server import GrpcDependencies, GrpcServer, grpc_credentials
from otel_ofu.receive.keys import JobNames
from otel_ofu.receive.otlp_http import otlp_service
from otel_ofu.receive.settings import OtlpReceiverSettings

# Starting value: to decode what waits at the end.
_LAST_WORK_S = 1.0


@dataclass(frozen=True, slots=True)
class ReceiverCounts:
    """Since the start. `points` by outcome; `reasons`, `unknown_names`: rejected points."""

    points: Mapping[str, int]
    reasons: Mapping[str, int]
    unknown_names: Mapping[str, int]


class OtlpReceiver:
    """Listens from the moment that it is built, answers from `start` to `close`.

    `deadlines` replaces those of the HTTP server. ValueError, in one line, for an address, a token
    or a certificate that cannot be used.
    """

    def __init__(
        self,
        settings: OtlpReceiverSettings,
        buffer: Buffer,
        *,
        names: JobNames | None = None,
        clock: Clock | None = None,
        deadlines: HttpLimits | None = None,
    ) -> None:
        tls, endpoints = settings.tls, (settings.http.endpoint, settings.grpc.endpoint)
        context = server_context(tls.cert_file, tls.key_file, tls.client_ca_file)
        token = BearerToken(settings.bearer_token_file) if settings.bearer_token_file else None
        self._decoder = Decoder(load_registry(), names, settings.max_entities)
        self._buffer = buffer
        self._worker = DecodeWorker(
            self._decoder, self._buffer, clock or SystemClock(), settings.max_pending_requests
        )
        limits = replace(deadlines or HttpLimits(), connections=settings.max_connections)
        self.budget = MemoryBudget(settings.max_pending_size)
        self.http: HttpServer | None = None
        self.grpc: GrpcServer | None = None
        http, grpc = (parse_address(text) if text else None for text in endpoints)
        try:
            if http:
                service = otlp_service(self._worker.offer, settings.max_http_size, token)
                self.http = HttpServer(http, service, limits, context=context, budget=self.budget)
            if grpc:
                needs = GrpcDependencies(self._worker.offer, self.budget, settings, limits, token)
                self.grpc = GrpcServer(grpc, needs, grpc_credentials(tls))
        except ValueError:
            self.close()
            raise

    @property
    def addresses(self) -> Sequence[str]:
        """Those that it listens on, for people."""
        servers = (("http", self.http), ("grpc", self.grpc))
        return [f"otlp {name} on {server.address}" for name, server in servers if server]

    @property
    def counts(self) -> ReceiverCounts:
        return ReceiverCounts(
            self._worker.counts, self._worker.reasons, self._decoder.unknown.counts
        )

    def start(self) -> None:
        self._worker.start()
        if self.http:
            self.http.start()
        if self.grpc:
            self.grpc.start()

    def take_pushed(self) -> Sequence[Observation]:
        """What training jobs reported since the last call, for the exporters."""
        return self._buffer.take_pushed()

    def close(self) -> None:
        """Within 2 s: what was taken is in the store, the rest gets the answer to come back."""
        self._worker.close(_LAST_WORK_S)
        if self.http:
            self.http.close()
        if self.grpc:
            self.grpc.close()
