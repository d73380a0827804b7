"""The OTLP receiver as a whole: two servers, one thread that decodes, the store behind it.

Enters: settings, and requests. Leaves: values in the store, what jobs said of themselves, counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.model import Observation
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.net.http_auth import BearerToken
from otel_ofu.net.http_limits import Budget, HttpLimits
from otel_ofu.net.http_server import HttpServer
from otel_ofu.net.tls import server_context
from otel_ofu.receive.buffer import Buffer
from otel_ofu.receive.decode import Decoder
from otel_ofu.receive.exchange import otlp_service
from otel_ofu.receive.grpc_server import GrpcDependencies, GrpcServer, grpc_credentials
from otel_ofu.receive.keys import JobNames
from otel_ofu.receive.settings import Limits, ReceiverSettings
from otel_ofu.receive.work import Work
from otel_ofu.store import Store

_LAST_WORK_S = 1.0


@dataclass(frozen=True, slots=True)
class Counts:
    """Since the start. `points` by outcome; `reasons`, `unknown_names`: rejected points."""

    points: Mapping[str, int]
    reasons: Mapping[str, int]
    unknown_names: Mapping[str, int]


class Receiver:
    """Listens from the moment that it is built, answers from `start` to `close`.

    ValueError, in one line, for an address, a token or a certificate that is no use.
    """

    def __init__(
        self,
        settings: ReceiverSettings,
        store: Store,
        *,
        names: JobNames | None = None,
        registry: Registry | None = None,
        clock: Clock | None = None,
    ) -> None:
        limits = settings.limits
        tls = settings.tls
        if bool(tls.cert_file) != bool(tls.key_file):
            raise ValueError("cert_file and key_file belong together")
        context = server_context(tls.cert_file, tls.key_file, tls.client_ca_file)
        token = BearerToken(settings.token_file) if settings.token_file else None
        self._decoder = Decoder(registry or load_registry(), names, settings.bounds)
        self._buffer = Buffer(store)
        self._work = Work(
            self._decoder, self._buffer, clock or SystemClock(), limits.pending_requests
        )
        self.budget = Budget(limits.pending_bytes)
        self.http: HttpServer | None = None
        self.grpc: GrpcServer | None = None
        try:
            if settings.http:
                self.http = HttpServer(
                    settings.http,
                    otlp_service(self._work.offer, limits.http_bytes, token),
                    _http_limits(limits),
                    context=context,
                    budget=self.budget,
                )
            if settings.grpc:
                needs = GrpcDependencies(self._work.offer, self.budget, limits, token)
                self.grpc = GrpcServer(settings.grpc, needs, grpc_credentials(tls))
        except ValueError:
            self.close()
            raise

    @property
    def places(self) -> Sequence[str]:
        """Where it listens, for people."""
        servers = (("http", self.http), ("grpc", self.grpc))
        return [f"otlp {name} on {server.address}" for name, server in servers if server]

    @property
    def counts(self) -> Counts:
        return Counts(self._work.counts, self._work.reasons, self._decoder.unknown.counts)

    def start(self) -> None:
        self._work.start()
        if self.http:
            self.http.start()
        if self.grpc:
            self.grpc.start()

    def take_pushed(self) -> Sequence[Observation]:
        """What training jobs said of themselves since the last call, for the exporters."""
        return self._buffer.take_pushed()

    def close(self) -> None:
        """Within 2 s: what was taken is in the store, the rest is told to come back."""
        self._work.close(_LAST_WORK_S)
        if self.http:
            self.http.close()
        if self.grpc:
            self.grpc.close()


def _http_limits(limits: Limits) -> HttpLimits:
    return HttpLimits(
        connections=limits.connections,
        pending_bytes=limits.pending_bytes,
        head_bytes=limits.head_bytes,
        head_s=limits.head_s,
        body_s=limits.body_s,
        idle_s=limits.idle_s,
    )
