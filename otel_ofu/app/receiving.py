"""OTLP in: the config put into what `receiver` needs.

Enters: the config and the store. Leaves: a `Receiver` that listens, or nothing when it is off.
"""

from __future__ import annotations

from otel_ofu.app.prepare import Prepared
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.receive import Bounds, Limits, Receiver, ReceiverSettings, Tls, parse_address
from otel_ofu.receive.settings import Address, OtlpReceiverSettings
from otel_ofu.store import Store


def receiver(prepared: Prepared, store: Store) -> Receiver | None:
    """Listens from now on. Raises ConfigError for an address or a file that cannot be used."""
    wanted = prepared.config.receivers.otlp
    if not wanted.listens:
        return None
    try:
        return Receiver(_settings(wanted), store, names=prepared.names)
    except ValueError as error:
        raise ConfigError([Problem("receivers.otlp", 0, 0, str(error))]) from error


def _settings(wanted: OtlpReceiverSettings) -> ReceiverSettings:
    return ReceiverSettings(
        http=_address(wanted.http.endpoint),
        grpc=_address(wanted.grpc.endpoint),
        tls=Tls(
            cert_file=wanted.tls.cert_file,
            key_file=wanted.tls.key_file,
            client_ca_file=wanted.tls.client_ca_file,
        ),
        token_file=wanted.bearer_token_file,
        limits=Limits(
            http_bytes=wanted.max_http_size,
            grpc_bytes=wanted.max_grpc_size,
            pending_bytes=wanted.max_pending_size,
            pending_requests=wanted.max_pending_requests,
            connections=wanted.max_connections,
        ),
        bounds=Bounds(max_entities=wanted.max_entities),
    )


def _address(text: str) -> Address | None:
    return parse_address(text) if text else None
