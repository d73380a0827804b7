"""The OTEL_EXPORTER_OTLP_* variables, read by the rules of the specification.

Enters: an environment. Leaves: options, or a ValueError that names every variable with a mistake.
Source: OpenTelemetry specification, protocol/exporter.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from otel_ofu.export.settings import OtlpOptions, OtlpSettings, Signal, header_list, resolve

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
