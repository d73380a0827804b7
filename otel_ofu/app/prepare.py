"""Everything that the agent reads before it opens a port or a driver; `run --check` reads the same.

Enters: a configuration as it was read, the environment. Leaves: what was loaded, or one ConfigError
with every mistake of the configuration, of the files that it names, and of the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.skus import InvalidSkus, Skus, load_skus
from otel_ofu.config import Config, Gpu, ReadConfig
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.derive.settings import parse_reference_clock
from otel_ofu.diagnose import CauseCatalogue, load_causes
from otel_ofu.evidence.flags import FlagCatalogue, load_flags
from otel_ofu.export.settings import header_list
from otel_ofu.export.targets import OtlpTarget, otlp_targets
from otel_ofu.files.installed import shipped
from otel_ofu.files.yaml import Steps, YamlFile, read_yaml
from otel_ofu.mfu import SeriesNames, built_in_names
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.rules.files.load import load_rules
from otel_ofu.rules.files.rule import RuleSet

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LoadedRules:
    """The rules, and the causes that they list."""

    rules: RuleSet
    causes: CauseCatalogue


@dataclass(frozen=True, slots=True)
class PreparedConfig:
    """The configuration, and what it and the environment name. `rules` None: they are off."""

    config: Config
    attributes: Mapping[str, str]
    targets: Sequence[OtlpTarget]
    skus: Skus
    flags: FlagCatalogue
    names: SeriesNames
    rules: LoadedRules | None

    def host_name(self, default: str) -> str:
        """The name of this node: what the user gives, else `default`."""
        return self.attributes.get("host.name", default)


def prepare(read: ReadConfig, environ: Mapping[str, str]) -> PreparedConfig:
    """Raises ConfigError with every mistake in one answer."""
    loading = _Loading(read)
    config = read.config
    none: dict[str, str] = {}
    attributes = loading.attempt((), lambda: resource_attributes(config, environ), none)
    targets = _targets(loading, environ)
    found_skus = loading.attempt(
        ("receivers", "gpu", "skus_file"),
        lambda: skus(config.receivers.gpu.skus_file),
        load_skus(),
    )
    steps = ("evidence", "flags", "files")
    files = loading.usable(config.evidence.flags.files, steps)
    flags = loading.attempt(steps, lambda: load_flags(files), FlagCatalogue((), ()))
    names = built_in_names().extended(config.mfu.metrics)
    rules = _rules(loading) if config.rules.enabled else None
    loading.finish()
    return PreparedConfig(config, attributes, targets, found_skus, flags, names, rules)


class _Loading:
    """Collects the mistakes of what is loaded; those without a line get that of their key."""

    def __init__(self, read: ReadConfig) -> None:
        self.read = read
        self._problems = [*read.problems]

    def attempt(self, steps: Steps, load: Callable[[], T], instead: T) -> T:
        """What `load` gives; `instead` where it fails, or where the key itself is a mistake."""
        if steps and self.read.is_mistaken(*steps):
            return instead
        try:
            return load()
        except ConfigError as error:
            self._problems += [self._with_position(problem, steps) for problem in error.problems]
            return instead

    def usable(self, files: Sequence[str], steps: Steps) -> Sequence[str]:
        """The items of the list at `steps` that are no mistakes."""
        return [file for i, file in enumerate(files) if not self.read.is_mistaken(*steps, i)]

    def finish(self) -> None:
        if self._problems:
            raise ConfigError(list(dict.fromkeys(self._problems)))

    def _with_position(self, problem: Problem, steps: Steps) -> Problem:
        if problem.line or not steps:
            return problem
        return self.read.problem(self._named(steps, problem.path), str(problem))

    def _named(self, steps: Steps, path: str) -> Steps:
        """The item of the list at `steps` that names the file."""
        value: object = self.read.config
        for step in steps:
            value = getattr(value, str(step))
        if isinstance(value, list) and path in value:
            return (*steps, value.index(path))
        return steps


def _targets(loading: _Loading, environ: Mapping[str, str]) -> Sequence[OtlpTarget]:
    """With a mistake in an exporter that is configured, the environment is not used."""
    exporters = loading.read.config.exporters
    if loading.read.holds_mistakes("exporters"):
        return ()
    steps: Steps = ("exporters", "otlp_http") if exporters.otlp_http.endpoint else ()
    if exporters.otlp_grpc.endpoint and not steps:
        steps = ("exporters", "otlp_grpc")
    return loading.attempt(steps, lambda: otlp_targets(exporters, environ), [])


def _rules(loading: _Loading) -> LoadedRules | None:
    config, registry = loading.read.config, load_registry()
    causes = loading.attempt(("rules", "causes_file"), lambda: configured_causes(config), None)
    names = causes.names if causes else None  # its mistakes are reported; those of rules as well
    steps = ("rules", "paths")
    paths = loading.usable(config.rules.paths, steps) or [str(shipped("rules"))]
    rules = loading.attempt(steps, lambda: load_rules(paths, registry, names), None)
    return LoadedRules(rules, causes) if rules is not None and causes is not None else None


def rule_paths(config: Config) -> list[Path]:
    """The rule files of the configuration; without any, the shipped ones."""
    return [Path(path) for path in config.rules.paths] or [shipped("rules")]


def configured_rules(config: Config, causes: CauseCatalogue | None = None) -> RuleSet:
    """Raises ConfigError with all that is wrong in all files."""
    causes = causes or configured_causes(config)
    return load_rules(rule_paths(config), load_registry(), causes.names)


def configured_causes(config: Config) -> CauseCatalogue:
    """The causes of the configured file, or the shipped ones. Raises ConfigError."""
    path = config.rules.causes_file or shipped("rules") / "causes.yaml"
    return load_causes(path, load_registry())


def resource_attributes(config: Config, environ: Mapping[str, str]) -> dict[str, str]:
    """What a user gives for the resource of everything that is sent: the file before variables.

    Source: OpenTelemetry specification, resource SDK: OTEL_SERVICE_NAME goes before
    OTEL_RESOURCE_ATTRIBUTES.
    """
    try:
        given = header_list(environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    except ValueError as error:
        problem = Problem("environment", 0, 0, f"OTEL_RESOURCE_ATTRIBUTES: {error}")
        raise ConfigError([problem]) from error
    service = environ.get("OTEL_SERVICE_NAME", "").strip()
    return {**given, **({"service.name": service} if service else {}), **config.resource}


def deriver(gpu: Gpu, host: str, *, known: Skus | None = None, node_name: str = "") -> Deriver:
    """Ready for the sampler. `host`: of a GPU that has no other; `node_name`: of every GPU.

    Raises ConfigError for a bad SKU file, unless its models are `known`.
    """
    return Deriver(
        DeriverSettings(
            skus=skus(gpu.skus_file) if known is None else known,
            node_name=node_name,
            reference_clock=parse_reference_clock(gpu.reference_clock),
            precision=gpu.precision,
            host_name=host,
            serial_numbers=gpu.serial_numbers,
        )
    )


def skus(path: str) -> Skus:
    """The built-in models, and those of the user's file."""
    if not path:
        return load_skus()
    file = read_yaml(path)
    try:
        known = load_skus().extended(file.tree)
    except InvalidSkus as error:
        raise ConfigError([*file.problems, *_sku_problems(file, error)]) from error
    if file.problems:
        raise ConfigError(file.problems)
    return known


def _sku_problems(file: YamlFile, error: InvalidSkus) -> Iterator[Problem]:
    for steps, message in error.faults:
        at_key = message.startswith("unknown key")
        yield (file.key_problem if at_key else file.problem)(steps, message)
