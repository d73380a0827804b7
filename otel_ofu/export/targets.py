"""The OTLP exporters: from the configuration, and where it has no value from the environment.

Enters: the block `exporters`, environment variables. Leaves: settings per exporter and signal, or a
ConfigError that names the key or the variable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.export.environment import (
    VariablesError,
    endpoint_in_env,
    options_from_env,
    settings_from_env,
)
from otel_ofu.export.settings import (
    ExporterSettings,
    OtlpExporterSettings,
    OtlpGrpcSettings,
    OtlpHttpSettings,
    OtlpOptions,
    OtlpSettings,
    Protocol,
    Signal,
    header_list,
    resolve,
)
from otel_ofu.model.errors import ConfigError, Problem

SIGNALS: Sequence[Signal] = ("metrics", "logs")
_DEFAULT = OtlpExporterSettings()


@dataclass(frozen=True, slots=True)
class OtlpTarget:
    """One OTLP exporter: its name in the configuration, and the settings of each signal."""

    name: str
    signals: Mapping[Signal, OtlpSettings]

    @property
    def endpoint(self) -> str:
        """As it may be shown."""
        return next(iter(self.signals.values())).shown_endpoint


def otlp_targets(exporters: ExporterSettings, environ: Mapping[str, str]) -> list[OtlpTarget]:
    """The OTLP exporters that are configured; else the one that the environment describes."""
    configured: dict[str, OtlpHttpSettings | OtlpGrpcSettings] = {
        "otlp_http": exporters.otlp_http,
        "otlp_grpc": exporters.otlp_grpc,
    }
    targets = [
        _configured(name, otlp, environ) for name, otlp in configured.items() if otlp.endpoint
    ]
    return targets or _from_environment(environ)


def _configured(
    name: str, otlp: OtlpHttpSettings | OtlpGrpcSettings, environ: Mapping[str, str]
) -> OtlpTarget:
    def settings(signal: Signal) -> OtlpSettings:
        return resolve(_options(otlp).over(options_from_env(environ, signal)), signal)

    return OtlpTarget(name, _by_signal(SIGNALS, settings, f"exporters.{name}"))


def _from_environment(environ: Mapping[str, str]) -> list[OtlpTarget]:
    signals = [signal for signal in SIGNALS if endpoint_in_env(environ, signal)]
    settings = _by_signal(signals, lambda s: settings_from_env(environ, s), "environment")
    return [OtlpTarget("otlp", settings)] if settings else []


def _by_signal(
    signals: Sequence[Signal], settings_of: Callable[[Signal], OtlpSettings], path: str
) -> dict[Signal, OtlpSettings]:
    """Raises ConfigError with the mistakes of all signals, each once."""
    found: dict[Signal, OtlpSettings] = {}
    mistakes: list[str] = []
    for signal in signals:
        try:
            found[signal] = settings_of(signal)
        except VariablesError as error:
            mistakes += error.messages
        except ValueError as error:
            mistakes.append(str(error))
    if mistakes:
        raise ConfigError([Problem(path, 0, 0, message) for message in dict.fromkeys(mistakes)])
    return found


def _options(otlp: OtlpHttpSettings | OtlpGrpcSettings) -> OtlpOptions:
    """What stands in the file; a key at its default leaves room for the environment."""
    protocol: Protocol = "grpc" if isinstance(otlp, OtlpGrpcSettings) else "http/protobuf"
    headers = {header.name: header.value for header in otlp.headers}
    headers |= header_list(otlp.headers_list)
    return OtlpOptions(
        protocol=protocol,
        endpoint=otlp.endpoint,
        headers=headers or None,
        compression=None if otlp.compression == _DEFAULT.compression else otlp.compression,
        timeout_s=None if otlp.timeout == _DEFAULT.timeout else float(otlp.timeout),
        ca_file=otlp.tls.ca_file or None,
        cert_file=otlp.tls.cert_file or None,
        key_file=otlp.tls.key_file or None,
        insecure=otlp.tls.insecure or None,
    )
