"""OTLP in: the config put into what `receiver` needs.

Enters: the config and the store. Leaves: a `Receiver` that listens, or nothing when it is off.
"""

from __future__ import annotations

from otel_ofu.config import Config
from otel_ofu.mfu import QUANTITIES, Quantity, built_in_names
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.receive import Bounds, Limits, Receiver, ReceiverSettings, Tls, parse_address
from otel_ofu.receive.settings import Address
from otel_ofu.store import Store


def receiver(config: Config, store: Store) -> Receiver | None:
    """Listens from now on. Raises ConfigError for an address, a file or a name that is no use."""
    wanted = config.receivers.otlp
    if not wanted.http.endpoint and not wanted.grpc.endpoint:
        return None
    try:
        names = built_in_names().extended(_own_names(config))
        return Receiver(_settings(config), store, names=names)
    except ValueError as error:
        raise ConfigError([Problem("receivers.otlp", 0, 0, str(error))]) from error


def check_receiver(config: Config) -> None:
    """Raises ConfigError for what `receiver` would not take; nothing listens."""
    try:
        built_in_names().extended(_own_names(config))
        _settings(config)
    except ValueError as error:
        raise ConfigError([Problem("receivers.otlp", 0, 0, str(error))]) from error


def _settings(config: Config) -> ReceiverSettings:
    """ValueError says what is allowed."""
    wanted = config.receivers.otlp
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


def _own_names(config: Config) -> dict[str, Quantity]:
    """The metric names of the config. ValueError for a word that is no quantity."""
    known = {str(word): word for word in QUANTITIES}
    unknown = [word for word in config.mfu.metrics.values() if word not in known]
    if unknown:
        raise ValueError(f"mfu.metrics: {unknown[0]!r}; allowed: {', '.join(known)}")
    return {name: known[word] for name, word in config.mfu.metrics.items()}


def _address(text: str) -> Address | None:
    return parse_address(text) if text else None
