"""`otel-ofu rules check`: mistakes in rules, and what is probably one.

Enters: rule files, causes and flags; what was observed, where it is given. Leaves: text.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copytree

import msgspec

from otel_ofu.catalog.registry import load_registry
from otel_ofu.cli import options
from otel_ofu.cli.rules_history import FILES, recorded_ticks, rules_in, step_of, written
from otel_ofu.config import Config
from otel_ofu.diagnose import CauseCatalogue, load_causes
from otel_ofu.evidence.flags import FlagCatalogue, load_flags
from otel_ofu.files.installed import shipped
from otel_ofu.model import EntityKind
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import ConfigError, OtelOfuError, Problem
from otel_ofu.rules.files.lint import lint
from otel_ofu.rules.files.rule import Rule, RuleGroup, RuleSet, SilenceCondition
from otel_ofu.rules.history_check import HistoryCheck
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.rules.promql.engine import PromqlEngine
from otel_ofu.rules.promql.samples import NotInPromqlError
from otel_ofu.rules.promql.server import QueryClient
from otel_ofu.rules.verdicts import Condition
from otel_ofu.store import Store
from otel_ofu.store.fleet import KINDS

# Starting value: what is known only now and then is met, and a day takes 144 rounds.
EVERY_S = 600.0


def add(kinds: options.Verbs) -> None:
    text = "find mistakes, and what is probably one"
    parser = kinds.add_parser("check", help=text, description=text)
    parser.add_argument("files", nargs="*", metavar="FILE", help=FILES)
    parser.add_argument(
        "--causes",
        metavar="FILE",
        help="causes that rules may list (default: causes.yaml of the folder, else the shipped)",
    )
    parser.add_argument(
        "--flags",
        metavar="FILE",
        action="append",
        default=[],
        help="flags that flag(…) may name beside the shipped ones, as in evidence.flags.files",
    )
    parser.add_argument(
        "--history",
        metavar="SOURCE",
        help="what was observed, to hold the rules against: a recording, the state_dir of an "
        "agent or the URL of a Prometheus",
    )
    options.add_config(parser)
    parser.set_defaults(verb=check)


def check(arguments: argparse.Namespace) -> int:
    """Mistakes are errors (exit 2); what is probably one is a warning (exit 0)."""
    rules = _checked(arguments)
    warnings = lint(rules, load_registry())
    if arguments.history:
        warnings += _against(arguments.history, rules, options.config_of(arguments))
    for problem in warnings:
        print(f"warning: {problem}")
    count = len(written(rules))
    print(f"{count} rule{'' if count == 1 else 's'}: ok")
    return 0


def _checked(arguments: argparse.Namespace) -> RuleSet:
    """The rules. Raises ConfigError with the mistakes of their causes as well."""
    problems: list[Problem] = []
    causes: CauseCatalogue | None = None
    try:
        causes = load_causes(_causes_file(arguments), load_registry())
    except ConfigError as error:
        problems += error.problems
    flags: FlagCatalogue | None = None
    try:
        flags = load_flags(arguments.flags or _beside(arguments, "flags.yaml"))
    except ConfigError as error:
        problems += error.problems
    names = causes.names if causes else None
    try:
        rules = rules_in(arguments.files, names, flags.names if flags else None)
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from error
    if problems:
        raise ConfigError(problems)
    return rules


def _causes_file(arguments: argparse.Namespace) -> str | Path:
    if arguments.causes:
        return str(arguments.causes)
    beside = _beside(arguments, "causes.yaml")
    return beside[0] if beside else shipped("rules") / "causes.yaml"


def _beside(arguments: argparse.Namespace, name: str) -> list[Path]:
    """The files of that name in the folders."""
    paths = (Path(folder) / name for folder in arguments.files if folder)
    return [path for path in paths if path.is_file()]


def _against(source: str, rules: RuleSet, config: Config) -> list[Problem]:
    """What a history says about the rules. OtelOfuError where there is none."""
    if source.startswith(("http://", "https://")):
        return _against_server(source, rules, config)
    path = Path(source)
    if path.is_dir():
        return _against_agent(path, rules, config)
    return _against_recording(source, rules, config)


def _store(check: HistoryCheck, config: Config, state_dir: Path | None = None) -> Store:
    expressions = (condition.expression for condition in check.conditions)
    step_s = step_of(config)
    retention = retention_for(expressions, step_s)
    clock = SystemClock() if state_dir else None
    return Store(load_registry(), retention, step_s=step_s, state_dir=state_dir, clock=clock)


def _against_recording(path: str, rules: RuleSet, config: Config) -> list[Problem]:
    check = HistoryCheck(rules, load_registry())
    store = _store(check, config)
    engine, last_s, now_s = NumpyEngine(store), -EVERY_S, 0.0
    for now_s, observations in recorded_ticks(config, [path]):
        store.write(observations)
        if now_s - last_s >= EVERY_S:
            check.add(engine, now_s)
            last_s = now_s
    if now_s > last_s:
        check.add(engine, now_s)
    return check.problems()


def _against_agent(state_dir: Path, rules: RuleSet, config: Config) -> list[Problem]:
    if not (state_dir / "store").is_dir():
        raise OtelOfuError(f"no history in {state_dir}: it has no folder `store` of an agent")
    check = HistoryCheck(rules, load_registry())
    with tempfile.TemporaryDirectory() as copy:
        copytree(state_dir / "store", Path(copy) / "store")  # the agent keeps the original
        store = _store(check, config, Path(copy) / "store")
        seen = [at_s for kind in KINDS for at_s in _last_seen(store, kind)]
        if not seen:
            raise OtelOfuError(f"no history in {state_dir}: its agent saw no GPU yet")
        check.add(NumpyEngine(store), max(seen))
    return check.problems()


def _against_server(url: str, rules: RuleSet, config: Config) -> list[Problem]:
    """As `rules.engine.prometheus` of the configuration reaches a server, but at this URL."""
    settings = msgspec.structs.replace(config.rules.engine.prometheus, url=url)
    with closing(QueryClient(options.checked(settings, {"url": "--history"}))) as client:
        engine = PromqlEngine(client, load_registry(), step_s=step_of(config))
        check = HistoryCheck(_in_promql(rules, engine), load_registry())
        check.add(engine, time.time())
    return check.problems()


def _last_seen(store: Store, kind: EntityKind) -> Iterator[float]:
    slots = store.slots(kind)
    return (float(s) for s in slots.last_seen_s[: len(slots)])


def _in_promql(rules: RuleSet, engine: PromqlEngine) -> RuleSet:
    """Those that can be asked of a server."""
    return RuleSet(
        tuple(
            RuleGroup(g.name, g.interval_s, tuple(r for r in g.rules if _asks(r, engine)))
            for g in rules.groups
        )
    )


def _asks(rule: Rule, engine: PromqlEngine) -> bool:
    if isinstance(rule.condition, SilenceCondition):
        return False
    try:
        engine.check(Condition(rule.condition, rule.limits))
    except NotInPromqlError:
        return False
    return True
