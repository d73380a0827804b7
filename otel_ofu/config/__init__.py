"""What a user may write in otel-ofu.yaml, as types; config/otel-ofu.yaml lists every key.

Enters: a file, or nothing (then the defaults hold). Leaves: `Config`, or a ConfigError that names
every mistake with file, line and column. Only `app` and `cli` see this module.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import inspect

from otel_ofu import notify
from otel_ofu.files.yaml import Steps, YamlFile, convert, keys_only, parse_yaml, read_yaml
from otel_ofu.jobs.settings import PROVIDERS
from otel_ofu.model.errors import ConfigError
from otel_ofu.notify import RouteSettings

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_UNITS_BYTES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_UNITS_HZ = {"Hz": 1.0, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9}
_PLAIN_TYPES = (
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.LiteralType,
    inspect.NoneType,
)
_QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,9})?) ?([A-Za-z]+|%)")


class Duration(float):
    """Seconds, written as `10s`, `500ms`, `5m`, `2h` or `1d`."""


class Size(int):
    """Bytes, written as `64KiB`, `256MiB` or `1GiB`."""


def parse_duration(text: str) -> Duration:
    """`10s` -> 10.0. ValueError says what is allowed."""
    return Duration(_quantity(text, _UNITS_S, "a duration such as 10s, 500ms, 5m or 2h"))


def parse_clock(text: str) -> float:
    """`1830MHz` -> 1.83e9. ValueError says what is allowed."""
    return _quantity(text, _UNITS_HZ, "sku_table, device_max or a clock such as 1830MHz")


def _quantity(text: object, units: dict[str, float], allowed: str) -> float:
    found = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if not found or found[2] not in units:
        shown = "a block" if isinstance(text, dict | list) else repr(text)
        raise ValueError(f"{shown} is not {allowed}")
    return float(found[1]) * units[found[2]]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of the file: unknown keys are mistakes."""


class Nvml(_Section, frozen=True, kw_only=True):
    library: str = ""


class Dcgm(_Section, frozen=True, kw_only=True):
    address: str = ""
    embedded: bool = False
    bindings_path: str = ""
    library_path: str = ""
    profiling: bool = True


class ScrapeEndpoint(_Section, frozen=True, kw_only=True):
    url: str
    bearer_token_file: str = ""
    username: str = ""
    password_file: str = ""
    ca_file: str = ""


class Scrape(_Section, frozen=True, kw_only=True):
    endpoints: list[ScrapeEndpoint] = msgspec.field(
        default_factory=lambda: [ScrapeEndpoint(url="http://localhost:9400/metrics")]
    )
    timeout: Duration = Duration(5)
    max_body: Size = Size(16 * 2**20)


class Recording(_Section, frozen=True, kw_only=True):
    path: str = ""
    columns: str = ""


class Demo(_Section, frozen=True, kw_only=True):
    scenario: str = "tour"
    seed: int = 1
    gpus: int = 8


SourceName = Literal["auto", "dcgm", "nvml", "scrape", "demo", "none"]
Precision = Literal["", "fp64", "tf32", "bf16", "fp16", "fp8", "fp4", "int8", "mixed"]


class Gpu(_Section, frozen=True, kw_only=True):
    source: SourceName = "auto"
    interval: Duration = Duration(10)
    reference_clock: str = "sku_table"
    precision: Precision = ""
    skus_file: str = ""
    serial_numbers: bool = False
    dcgm: Dcgm = Dcgm()
    nvml: Nvml = Nvml()
    scrape: Scrape = msgspec.field(default_factory=Scrape)
    demo: Demo = Demo()


class Listener(_Section, frozen=True, kw_only=True):
    endpoint: str = ""


class ServerTls(_Section, frozen=True, kw_only=True):
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""


class OtlpIn(_Section, frozen=True, kw_only=True):
    http: Listener = Listener()
    grpc: Listener = Listener()
    tls: ServerTls = ServerTls()
    bearer_token_file: str = ""
    max_http_size: Size = Size(20 * 2**20)
    max_grpc_size: Size = Size(4 * 2**20)
    max_pending_size: Size = Size(64 * 2**20)
    max_pending_requests: int = 256
    max_connections: int = 1024
    max_entities: int = 200_000


class Receivers(_Section, frozen=True, kw_only=True):
    gpu: Gpu = msgspec.field(default_factory=Gpu)
    otlp: OtlpIn = OtlpIn()


class Header(_Section, frozen=True, kw_only=True):
    name: str
    value: str


class Tls(_Section, frozen=True, kw_only=True):
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    insecure: bool = False


class Otlp(_Section, frozen=True, kw_only=True):
    """Keys as in OpenTelemetry's declarative configuration; an empty endpoint switches it off."""

    endpoint: str = ""
    headers: list[Header] = []
    headers_list: str = ""
    compression: Literal["gzip", "none"] = "gzip"
    timeout: Duration = Duration(10)
    tls: Tls = Tls()


class Prometheus(_Section, frozen=True, kw_only=True):
    listen: str = ""
    bearer_token_file: str = ""
    cert_file: str = ""
    key_file: str = ""


class File(_Section, frozen=True, kw_only=True):
    path: str = ""
    max_size: Size = Size(100 * 2**20)
    backups: int = 3


class Console(_Section, frozen=True, kw_only=True):
    mode: Literal["auto", "table", "lines", "off"] = "auto"


class Exporters(_Section, frozen=True, kw_only=True):
    otlp_http: Otlp = Otlp()
    otlp_grpc: Otlp = Otlp()
    prometheus: Prometheus = Prometheus()
    file: File = File()
    console: Console = Console()


class Outbox(_Section, frozen=True, kw_only=True):
    max_size: Size = Size(256 * 2**20)
    max_age: Duration = Duration(86400)


class Kubernetes(_Section, frozen=True, kw_only=True):
    pod_resources: str = "/var/lib/kubelet/pod-resources/kubelet.sock"
    pod_logs: str = "/var/log/pods"
    pod_labels: dict[str, str] = {}
    kubelet_url: str = ""
    kubelet_token_file: str = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
    kubelet_ca_file: str = ""


class Percent(float):
    """A ratio, written as `40%`."""


class Jobs(_Section, frozen=True, kw_only=True):
    enabled: bool = True
    target_ofu: Percent = Percent(0.4)
    idle_below: Percent = Percent(0.01)
    providers: list[str] = msgspec.field(default_factory=lambda: list(PROVIDERS))
    interval: Duration = Duration(30)
    environment: dict[str, str] = {}
    personal: bool = False
    trust_pids: bool = False
    mapping_dirs: list[str] = []
    kubernetes: Kubernetes = Kubernetes()


class Log(_Section, frozen=True, kw_only=True):
    files: list[str] = []
    command: list[str] = []
    job: str = ""
    start: Literal["end", "beginning"] = "end"
    frameworks: list[str] = []
    patterns: list[str] = []


class Mfu(_Section, frozen=True, kw_only=True):
    metrics: dict[str, str] = {}
    interval: Duration = Duration(1)
    logs: list[Log] = []


class Flags(_Section, frozen=True, kw_only=True):
    enabled: bool = True
    interval: Duration = Duration(30)
    files: list[str] = []
    trust_pids: bool = False


class Host(_Section, frozen=True, kw_only=True):
    enabled: bool = True


class Evidence(_Section, frozen=True, kw_only=True):
    flags: Flags = Flags()
    host: Host = Host()


class PrometheusServer(_Section, frozen=True, kw_only=True):
    url: str = ""
    tenant: str = ""
    bearer_token_file: str = ""
    username: str = ""
    password_file: str = ""
    ca_file: str = ""
    timeout: Duration = Duration(10)


class RulesEngine(_Section, frozen=True, kw_only=True):
    prometheus: PrometheusServer = PrometheusServer()


class Rules(_Section, frozen=True, kw_only=True):
    enabled: bool = True
    paths: list[str] = []
    causes_file: str = ""
    engine: RulesEngine = RulesEngine()


class Agent(_Section, frozen=True, kw_only=True):
    metrics_interval: Duration = Duration(60)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    shutdown_deadline: Duration = Duration(5)


class Config(_Section, frozen=True, kw_only=True):
    """Everything a user can set, at its default."""

    state_dir: str = ""
    resource: dict[str, str] = {}
    receivers: Receivers = msgspec.field(default_factory=Receivers)
    exporters: Exporters = msgspec.field(default_factory=Exporters)
    outbox: Outbox = Outbox()
    jobs: Jobs = msgspec.field(default_factory=Jobs)
    mfu: Mfu = Mfu()
    evidence: Evidence = Evidence()
    rules: Rules = Rules()
    route: RouteSettings = msgspec.field(default_factory=RouteSettings)
    agent: Agent = Agent()


def _hook(type_: type[Any], value: Any) -> Any:  # noqa: ANN401 - msgspec's signature
    if type_ is Duration:
        return parse_duration(value)
    if type_ is Percent:
        return Percent(_quantity(value, {"%": 0.01}, "a part such as 40%"))
    if type_ is Size:
        return Size(_quantity(value, dict(_UNITS_BYTES), "a size such as 64KiB, 256MiB or 1GiB"))
    return notify.hook(type_, value)


def load_config(path: str | Path) -> Config:
    """The configuration in a file. Raises ConfigError with every mistake and its place."""
    with _no_secret_shown():
        return _checked(read_yaml(path))


def config_from_text(text: str, path: str = "otel-ofu.yaml") -> Config:
    """The configuration in a text. Raises ConfigError with every mistake and its place."""
    with _no_secret_shown():
        return _checked(parse_yaml(text, path))


@contextmanager
def _no_secret_shown() -> Iterator[None]:
    """Mistakes are told without any text of the file that could be a token or a password."""
    try:
        yield
    except ConfigError as error:
        plain = _plain_keys()
        raise ConfigError([keys_only(p, plain) for p in error.problems]) from None


@cache
def _plain_keys() -> frozenset[str]:
    """The keys that take a number or one of a few words, wherever they stand."""
    plain: set[str] = set()
    other: set[str] = set()
    for struct in _structs(inspect.type_info(Config), set()):
        for field in struct.fields:
            (plain if _is_plain(field.type) else other).add(field.encode_name)
    return frozenset(plain - other)


def _is_plain(type_: inspect.Type) -> bool:
    if isinstance(type_, inspect.UnionType):
        return all(_is_plain(part) for part in type_.types)
    if isinstance(type_, inspect.CustomType):
        return issubclass(type_.cls, int | float)
    return isinstance(type_, _PLAIN_TYPES)


def _structs(type_: inspect.Type, seen: set[type]) -> Iterator[inspect.StructType]:
    if isinstance(type_, inspect.StructType):
        if type_.cls in seen:
            return
        seen.add(type_.cls)
        yield type_
    for part in _parts(type_):
        yield from _structs(part, seen)


def _parts(type_: inspect.Type) -> Iterable[inspect.Type]:
    if isinstance(type_, inspect.StructType):
        return [field.type for field in type_.fields]
    if isinstance(type_, inspect.UnionType):
        return type_.types
    if isinstance(type_, inspect.DictType):
        return [type_.value_type]
    return [type_.item_type] if isinstance(type_, inspect.ListType | inspect.VarTupleType) else []


def _checked(file: YamlFile) -> Config:
    config = convert(file, Config, hook=_hook)
    problems = [file.problem(steps, message) for steps, message in _mistakes(config)]
    if problems:
        raise ConfigError(problems)
    return config


def _mistakes(config: Config) -> list[tuple[Steps, str]]:
    """What the types alone cannot see."""
    found: list[tuple[Steps, str]] = []
    gpu = config.receivers.gpu
    gpu_steps = ("receivers", "gpu")
    if not 0.1 <= gpu.interval <= 3600:  # noqa: PLR2004 - GPM and DCGM give wrong data below 100 ms
        found.append(((*gpu_steps, "interval"), "must be from 100ms to 1h"))
    if gpu.reference_clock not in ("sku_table", "device_max"):
        found += _try((*gpu_steps, "reference_clock"), gpu.reference_clock)
    listens = config.receivers.otlp.http.endpoint or config.receivers.otlp.grpc.endpoint
    if listens and not config.rules.enabled:
        found.append((("rules", "enabled"), "must be true where receivers.otlp listens"))
    if gpu.source == "none" and not listens:
        found.append(((*gpu_steps, "source"), "none needs an endpoint of receivers.otlp"))
    found += _exporter_mistakes(config.exporters)
    around = notify.Surroundings(time.time(), os.environ)
    found += [(("route", *steps), words) for steps, words in notify.mistakes(config.route, around)]
    return found


def _try(steps: Steps, clock: str) -> list[tuple[Steps, str]]:
    try:
        clock_hz = parse_clock(clock)
    except ValueError as error:
        return [(steps, str(error))]
    possible = 1e8 <= clock_hz <= 1e10  # noqa: PLR2004 - 100 MHz to 10 GHz
    return [] if possible else [(steps, f"{clock} is no clock of a GPU (100MHz to 10GHz)")]


def _exporter_mistakes(exporters: Exporters) -> list[tuple[Steps, str]]:
    found: list[tuple[Steps, str]] = []
    for name in ("otlp_http", "otlp_grpc"):
        tls: Tls = getattr(exporters, name).tls
        if bool(tls.cert_file) != bool(tls.key_file):
            found.append((("exporters", name, "tls"), "cert_file and key_file belong together"))
        for key in ("ca_file", "cert_file", "key_file"):
            path = getattr(tls, key)
            if path and not Path(path).is_file():
                found.append((("exporters", name, "tls", key), f"no such file: {path}"))
    url = exporters.otlp_http.endpoint
    if url and not url.startswith(("http://", "https://")):
        found.append(
            (("exporters", "otlp_http", "endpoint"), "must begin with http:// or https://")
        )
    return found
