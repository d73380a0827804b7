"""Where and how OTLP goes, checked: what a user may leave open, and what is left then.

Enters: options from a config or the environment. Leaves: `OtlpSettings`, or a ValueError that
names the option and what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Literal, cast, get_args
from urllib.parse import SplitResult, unquote, urlsplit

from otel_ofu.files.settings import (
    CheckContext,
    Duration,
    Mistake,
    ParsedText,
    QuantityRange,
    Settings,
    Size,
    WritableFile,
)
from otel_ofu.net.secrets import redacted
from otel_ofu.net.settings import Address, TokenFile, parse_address
from otel_ofu.net.tls import ServerCertificate, TlsFiles, check_tls_files

Protocol = Literal["http/protobuf", "grpc"]
Compression = Literal["gzip", "none"]
Signal = Literal["metrics", "logs"]

_DEFAULTS = {"http/protobuf": "http://localhost:4318", "grpc": "http://localhost:4317"}
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


def _parse_header_name(text: str) -> None:
    if not _HEADER_NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not a header name")


def _parse_header_value(text: str) -> None:
    if not _HEADER_VALUE.fullmatch(text):
        raise ValueError("has to be printable ASCII")


def header_list(value: str) -> Mapping[str, str]:
    """`key=value` with commas between, percent-encoded, as W3C baggage. No value in an error."""
    headers: dict[str, str] = {}
    for position, part in enumerate(value.split(","), start=1):
        if not part.strip():
            continue
        name, equals, text = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"entry {position} is not key=value; allowed: key1=value1,key2=value2")
        headers[unquote(name.strip())] = unquote(text.strip())
    return headers


def _parse_header_list(text: str) -> None:
    _headers(header_list(text))


def _parse_http_endpoint(text: str) -> None:
    if not text.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    _without_key(lambda: resolve(OtlpOptions(endpoint=text), "metrics"))


def _parse_grpc_endpoint(text: str) -> None:
    _without_key(lambda: resolve(OtlpOptions(protocol="grpc", endpoint=text), "metrics"))


def _without_key(attempt: Callable[[], object]) -> None:
    """The mistake stands at its key already."""
    try:
        attempt()
    except ValueError as error:
        raise ValueError(str(error).removeprefix("endpoint: ")) from None


class Header(Settings, frozen=True, kw_only=True):
    """As in OpenTelemetry's declarative configuration."""

    name: Annotated[str, ParsedText(_parse_header_name)]
    value: Annotated[str, ParsedText(_parse_header_value)]

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - text alone
        if not self.name:
            yield ("name",), "a name is needed"


class OtlpTls(TlsFiles, frozen=True, kw_only=True):
    """`insecure`: plaintext, for a gRPC endpoint without a scheme."""

    insecure: bool = False

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:
        if bool(self.cert_file) != bool(self.key_file):
            yield (), "cert_file and key_file belong together"
        else:
            yield from super().mistakes(around)


class OtlpExporterSettings(Settings, frozen=True, kw_only=True):
    """Keys as in OpenTelemetry's declarative configuration; an empty endpoint switches it off."""

    endpoint: str = ""
    headers: list[Header] = []
    headers_list: Annotated[str, ParsedText(_parse_header_list)] = ""
    compression: Compression = "gzip"
    timeout: Annotated[Duration, QuantityRange(Duration(0.001), Duration(3600))] = Duration(10)
    tls: OtlpTls = OtlpTls()


class OtlpHttpSettings(OtlpExporterSettings, frozen=True, kw_only=True):
    """`endpoint`: a base; /v1/metrics and /v1/logs are added."""

    endpoint: Annotated[str, ParsedText(_parse_http_endpoint)] = ""


class OtlpGrpcSettings(OtlpExporterSettings, frozen=True, kw_only=True):
    """`endpoint`: [scheme://]host[:port]."""

    endpoint: Annotated[str, ParsedText(_parse_grpc_endpoint)] = ""


def page_address(text: str) -> Address:
    """As `parse_address`; `:9464` is on loopback."""
    return parse_address(f"127.0.0.1{text}" if text.startswith(":") else text)


class PrometheusSettings(ServerCertificate, frozen=True, kw_only=True):
    """A page for Prometheus to scrape; an empty `listen` switches it off."""

    listen: Annotated[str, ParsedText(page_address)] = ""
    bearer_token_file: TokenFile = ""


class FileSettings(Settings, frozen=True, kw_only=True):
    """OTLP as JSON lines; a file of `max_size` is set aside, and so many `backups` are kept."""

    path: Annotated[str, WritableFile()] = ""
    max_size: Annotated[Size, QuantityRange(Size(1), Size(2**40))] = Size(100 * 2**20)
    backups: Annotated[int, QuantityRange(0, 10_000)] = 3


class ConsoleSettings(Settings, frozen=True, kw_only=True):
    """What is shown on a terminal."""

    mode: Literal["auto", "table", "lines", "off"] = "auto"


class ExporterSettings(Settings, frozen=True, kw_only=True):
    """The block `exporters`."""

    otlp_http: OtlpHttpSettings = OtlpHttpSettings()
    otlp_grpc: OtlpGrpcSettings = OtlpGrpcSettings()
    prometheus: PrometheusSettings = PrometheusSettings()
    file: FileSettings = FileSettings()
    console: ConsoleSettings = ConsoleSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpOptions:
    """What may be given; None is not given. `endpoint` is a base, `signal_endpoint` verbatim.

    `headers` may hold secrets and never appear in an error.
    """

    protocol: str | None = None
    endpoint: str | None = None
    signal_endpoint: str | None = None
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    compression: str | None = None
    timeout_s: float | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    insecure: bool | None = None

    def over(self, other: OtlpOptions) -> OtlpOptions:
        """These options, and those of `other` where these have no value.

        The two endpoints count as one option, the client certificate and its key as well.
        """
        taken = {f.name: getattr(self, f.name) for f in fields(self)}
        given = {name: value for name, value in taken.items() if value is not None}
        for pair in (("endpoint", "signal_endpoint"), ("cert_file", "key_file")):
            if any(name in given for name in pair):
                given |= {name: taken[name] for name in pair}
        return replace(other, **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class OtlpSettings:
    """Complete and checked. `endpoint` is a URL for HTTP, `host:port` for gRPC."""

    protocol: Protocol
    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    compression: Compression = "gzip"
    timeout_s: float = 10.0
    tls: TlsFiles = field(default_factory=TlsFiles)
    plaintext: bool = False

    @property
    def shown_endpoint(self) -> str:
        """The endpoint as it may be shown: without a query, which may hold a key."""
        return self.endpoint.partition("?")[0]

    def redacted(self, text: str) -> str:
        """The text without what a server may have sent back of our headers' values."""
        # A value is hidden as a whole, and what follows "Bearer" by itself.
        values = self.headers.values()
        return redacted(text, [*values, *(value.partition(" ")[2] for value in values)])


def resolve(options: OtlpOptions, signal: Signal) -> OtlpSettings:
    """The settings for one signal; TLS files are read once to see that they can be used."""
    protocol = _one_of("protocol", options.protocol or "http/protobuf", get_args(Protocol))
    compression = _one_of("compression", options.compression or "gzip", get_args(Compression))
    endpoint, plaintext = _endpoint(options, protocol, signal)
    settings = OtlpSettings(
        protocol=cast("Protocol", protocol),
        endpoint=endpoint,
        headers=_headers(options.headers or {}),
        compression=cast("Compression", compression),
        timeout_s=_timeout_s(options.timeout_s),
        tls=TlsFiles(
            ca_file=options.ca_file or "",
            cert_file=options.cert_file or "",
            key_file=options.key_file or "",
        ),
        plaintext=plaintext,
    )
    check_tls_files(settings.tls)
    return settings


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ValueError(f"{name}: {value!r} is not supported; allowed: {', '.join(allowed)}")
    return value


def _timeout_s(value: float | None) -> float:
    timeout_s = 10.0 if value is None else value
    if not 0 < timeout_s <= 3600:  # noqa: PLR2004 - an hour
        raise ValueError(f"timeout: {timeout_s:g} s; allowed: more than 0, at most 3600 s")
    return timeout_s


def _headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError(f"headers: {name!r} is not a header name")
        if not _HEADER_VALUE.fullmatch(value):
            raise ValueError(f"headers: the value of {name!r} has to be printable ASCII")
    return {name.lower(): value.strip() for name, value in headers.items()}


def _endpoint(options: OtlpOptions, protocol: str, signal: Signal) -> tuple[str, bool]:
    """The endpoint of the signal, and whether it goes without TLS."""
    given = options.signal_endpoint or options.endpoint or _DEFAULTS[protocol]
    if protocol == "grpc":
        return _grpc_endpoint(given, insecure=bool(options.insecure))
    _check_url(given, given)
    if not options.signal_endpoint:
        given = _signal_url(given, signal)
    return given, given.lower().startswith("http:")


def _signal_url(given: str, signal: Signal) -> str:
    base, question, query = given.partition("?")
    base = base.rstrip("/")
    if base.endswith(("/v1/metrics", "/v1/logs", "/v1/traces")):
        raise ValueError(f"endpoint: {base!r} is to be a base; leave off /v1/…, which is added")
    return f"{base}/v1/{signal}{question}{query}"


def _grpc_endpoint(given: str, *, insecure: bool) -> tuple[str, bool]:
    has_scheme = "://" in given
    url = given if has_scheme else f"{'http' if insecure else 'https'}://{given}"
    parts = _check_url(url, given)
    if parts.path.strip("/") or parts.query:
        raise ValueError(
            f"endpoint: {given!r} has a path; allowed for gRPC: [scheme://]host[:port]"
        )
    target = parts.netloc if parts.port else f"{parts.netloc.rstrip(':')}:4317"
    return target, parts.scheme == "http"


def _check_url(url: str, given: str) -> SplitResult:
    given = given.partition("?")[0]  # a query may hold a key
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"endpoint: {given!r}: {error}") from None
    if "@" in parts.netloc:
        raise ValueError("endpoint: no user and password in the URL; use headers")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"endpoint: {given!r} is not an endpoint; allowed: http(s)://host[:port]")
    if re.search(r"[\s\x00-\x1f]", url):
        raise ValueError(f"endpoint: {given!r} has spaces in it")
    return parts
