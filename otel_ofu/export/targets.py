"""The OTLP exporters: from the configuration, and where it has no value from the environment.

Enters: the block `exporters`, the variables OTEL_EXPORTER_OTLP_*. Leaves: settings per exporter and
signal, or a ConfigError that names the key or the variable.
Source: OpenTelemetry specification, protocol/exporter.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

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


_T = TypeVar("_T")

_PREFIX = "OTEL_EXPORTER_OTLP_"
_PROTOCOLS = ("grpc", "http/protobuf")
_COMPRESSIONS = ("gzip", "none")


class VariablesError(ValueError):
    """Variables that cannot be used; `messages` names each with what is allowed."""

    def __init__(self, messages: Sequence[str]) -> None:
        super().__init__("\n".join(messages))
        self.messages = tuple(messages)


def endpoint_in_env(environ: Mapping[str, str], signal: Signal) -> bool:
    """Whether the environment has an endpoint for this signal."""
    return _Variables(environ, signal).find("ENDPOINT") is not None


def settings_from_env(environ: Mapping[str, str], signal: Signal) -> OtlpSettings:
    """The options of the environment alone; its defaults are those of the specification."""
    options = options_from_env(environ, signal)
    try:
        return resolve(options, signal)
    except ValueError as error:
        raise ValueError(f"{_PREFIX}*: {error}") from error


def options_from_env(environ: Mapping[str, str], signal: Signal) -> OtlpOptions:
    """The variable of the signal before the general one; an empty one counts as unset."""
    variables = _Variables(environ, signal)
    specific = variables.specific("ENDPOINT")
    options = OtlpOptions(
        protocol=variables.read("PROTOCOL", _choice(_PROTOCOLS)),
        endpoint=variables.general("ENDPOINT") if specific is None else None,
        signal_endpoint=specific,
        headers=variables.read("HEADERS", header_list),
        compression=variables.read("COMPRESSION", _choice(_COMPRESSIONS)),
        timeout_s=variables.read("TIMEOUT", _milliseconds),
        ca_file=variables.read("CERTIFICATE", str),
        cert_file=variables.read("CLIENT_CERTIFICATE", str),
        key_file=variables.read("CLIENT_KEY", str),
        insecure=variables.read("INSECURE", _boolean),
    )
    if variables.mistakes:
        raise VariablesError(variables.mistakes)
    return options


class _Variables:
    """The variables of one signal. `mistakes` collects those that could not be read."""

    def __init__(self, environ: Mapping[str, str], signal: Signal) -> None:
        self.mistakes: list[str] = []
        self._environ = environ
        self._signal = signal.upper()

    def specific(self, name: str) -> str | None:
        return self._environ.get(f"{_PREFIX}{self._signal}_{name}", "").strip() or None

    def general(self, name: str) -> str | None:
        return self._environ.get(f"{_PREFIX}{name}", "").strip() or None

    def find(self, name: str) -> tuple[str, str] | None:
        """The variable that counts, and its value."""
        if (value := self.specific(name)) is not None:
            return f"{_PREFIX}{self._signal}_{name}", value
        if (value := self.general(name)) is not None:
            return f"{_PREFIX}{name}", value
        return None

    def read(self, name: str, parse: Callable[[str], _T]) -> _T | None:
        found = self.find(name)
        if found is None:
            return None
        variable, value = found
        try:
            return parse(value)
        except ValueError as error:
            self.mistakes.append(f"{variable}: {error}")
            return None


def _choice(allowed: tuple[str, ...]) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value.lower() not in allowed:
            raise ValueError(f"{value!r} is not supported; allowed: {', '.join(allowed)}")
        return value.lower()

    return parse


def _milliseconds(value: str) -> float:
    """The specification counts in milliseconds, whatever some SDKs do."""
    if not value.isascii() or not value.isdigit() or not int(value):
        raise ValueError(f"{value!r}; allowed: milliseconds as a whole number above 0, e.g. 10000")
    return int(value) / 1000


def _boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise ValueError(f"{value!r}; allowed: true, false")
    return value.lower() == "true"
