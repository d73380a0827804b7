"""Where telemetry goes: the config and the environment put into exporters.

Enters: config, environment. Leaves: settings per exporter and signal, or a ConfigError that names
the key or the variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from otel_ofu.config import Config
from otel_ofu.export.environment import (
    endpoint_in_env,
    options_from_env,
    settings_from_env,
)
from otel_ofu.export.settings import (
    OtlpExporterSettings,
    OtlpOptions,
    OtlpSettings,
    Signal,
    header_list,
    resolve,
)
from otel_ofu.model.errors import ConfigError, Problem

SIGNALS: Sequence[Signal] = ("metrics", "logs")
DEFAULT = OtlpExporterSettings()


@dataclass(frozen=True, slots=True)
class OtlpTarget:
    """One OTLP exporter: its name in the config, and the settings of each signal."""

    name: str
    signals: Mapping[Signal, OtlpSettings]

    @property
    def place(self) -> str:
        return next(iter(self.signals.values())).place


def otlp_targets(config: Config, environ: Mapping[str, str]) -> list[OtlpTarget]:
    """The OTLP exporters of the config; if it has none, the one that the environment describes."""
    written = [
        _written(name, otlp, environ)
        for name, otlp in (
            ("otlp_http", config.exporters.otlp_http),
            ("otlp_grpc", config.exporters.otlp_grpc),
        )
        if otlp.endpoint
    ]
    return written or _from_environment(environ)


def _written(name: str, otlp: OtlpExporterSettings, environ: Mapping[str, str]) -> OtlpTarget:
    try:
        return OtlpTarget(
            name,
            {
                signal: resolve(
                    _options(name, otlp).over(options_from_env(environ, signal)), signal
                )
                for signal in SIGNALS
            },
        )
    except ValueError as error:
        raise _mistake(f"exporters.{name}", error) from error


def _from_environment(environ: Mapping[str, str]) -> list[OtlpTarget]:
    signals = [signal for signal in SIGNALS if endpoint_in_env(environ, signal)]
    try:
        settings = {signal: settings_from_env(environ, signal) for signal in signals}
    except ValueError as error:
        raise _mistake("environment", error) from error
    return [OtlpTarget("otlp", settings)] if settings else []


def _options(name: str, otlp: OtlpExporterSettings) -> OtlpOptions:
    """What stands in the file; a key at its default leaves room for the environment."""
    protocol: Literal["grpc", "http/protobuf"] = "grpc" if name == "otlp_grpc" else "http/protobuf"
    headers = {header.name: header.value for header in otlp.headers}
    headers |= header_list(otlp.headers_list)
    return OtlpOptions(
        protocol=protocol,
        endpoint=otlp.endpoint,
        headers=headers or None,
        compression=None if otlp.compression == DEFAULT.compression else otlp.compression,
        timeout_s=None if otlp.timeout == DEFAULT.timeout else float(otlp.timeout),
        ca_file=otlp.tls.ca_file or None,
        cert_file=otlp.tls.cert_file or None,
        key_file=otlp.tls.key_file or None,
        insecure=otlp.tls.insecure or None,
    )


def _mistake(place: str, what: object) -> ConfigError:
    return ConfigError([Problem(place, 0, 0, str(what))])
