"""`otel-ofu rules …`: for those who write rules.

Enters: rule files, recordings. Leaves: text; exit status 1 when a test failed or a file is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from shutil import copytree

from otel_ofu.app.deriving import deriver
from otel_ofu.app.prepare import configured_rules
from otel_ofu.app.state import could_be_state_dir
from otel_ofu.catalog.registry import load_registry
from otel_ofu.cli import options
from otel_ofu.config import Config
from otel_ofu.diagnose import CauseBook, load_causes
from otel_ofu.files.shipped import shipped
from otel_ofu.files.yaml import read_yaml
from otel_ofu.model import Observation
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import ConfigError, OtelOfuError, Problem
from otel_ofu.rules.backtest import BacktestResult, Episode, backtest, differences
from otel_ofu.rules.explain import Explanation, explain
from otel_ofu.rules.files.lint import lint
from otel_ofu.rules.files.load import load_rules
from otel_ofu.rules.files.rule import Rule, RuleSet
from otel_ofu.rules.files.shape import schema
from otel_ofu.rules.needs import retention_for
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.promql.ruler import TARGETS, ExportOptions, export_rules
from otel_ofu.rules.tests.promtool import is_promtool_file, run_promtool_file
from otel_ofu.rules.tests.run import Result, run_tests
from otel_ofu.rules.verdicts import CLEAR, HOLDS
from otel_ofu.sources.recording import RecordingReader
from otel_ofu.store import Retention, Store

MOST_EXPLAINED = 8
BUILT_IN = "built-in"
FILES = "rule files or folders; without any, the rules that come with otel-ofu"


def add(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_check(kinds)
    _files(kinds, "test", test, "run the tests in rule files, or files in promtool's format")
    _files(kinds, "list", list_, "list the rules")
    kinds.add_parser("schema", help="JSON Schema of a rule file, for editors").set_defaults(
        verb=print_schema
    )
    _add_backtest(kinds)
    _add_export(kinds)
    _add_explain(kinds)


def _files(
    kinds: options.Verbs, name: str, verb: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = kinds.add_parser(name, help=text, description=text)
    parser.add_argument("files", nargs="*", metavar="FILE", help=FILES)
    parser.set_defaults(verb=verb)
    return parser


def _add_check(kinds: options.Verbs) -> None:
    parser = _files(kinds, "check", check, "find mistakes, and what is probably one")
    parser.add_argument(
        "--causes",
        metavar="FILE",
        help="causes that rules may list (default: causes.yaml of the folder, else the shipped)",
    )


def _add_backtest(kinds: options.Verbs) -> None:
    text = "what the rules would have found in recordings"
    parser = kinds.add_parser("backtest", help=text, description=text)
    parser.add_argument("recordings", nargs="+", metavar="RECORDING")
    parser.add_argument("--rules", nargs="+", default=[], metavar="FILE", help=FILES)
    parser.add_argument("--diff", nargs="+", metavar="FILE", help="other rules, to compare with")
    options.add_config(parser)
    parser.set_defaults(verb=run_backtest)


def _add_export(kinds: options.Verbs) -> None:
    parser = _files(kinds, "export", export, "the rules for a ruler of the Prometheus family")
    parser.add_argument("--to", choices=TARGETS, default="prometheus", help="whose format")
    parser.add_argument(
        "--step",
        type=options.duration,
        default=10.0,
        metavar="TIME",
        help="interval at which the metrics are sampled (default 10s)",
    )
    parser.add_argument(
        "--prometheus-2",
        action="store_true",
        help="for Prometheus before 3.0, whose windows hold both ends",
    )


def _add_explain(kinds: options.Verbs) -> None:
    text = "each part of a rule with its present value"
    parser = kinds.add_parser(
        "explain",
        help=text,
        description=f"{text}, from the history of the agent on this machine or from a recording.",
    )
    parser.add_argument("rule", metavar="RULE")
    parser.add_argument(
        "--gpu",
        "--entity",
        dest="entity",
        metavar="ID",
        help="GPU (UUID), job or node; without it the first few",
    )
    parser.add_argument("--recording", metavar="FILE", help="instead of the agent's history")
    options.add_config(parser)
    parser.set_defaults(verb=run_explain)


def _rules(files: Sequence[str], causes: Collection[str] | None = None) -> RuleSet:
    """The rules of the files, which may list `causes`. Raises ConfigError also without a rule."""
    if "" in files:
        raise ConfigError([Problem("command line", 0, 0, "'' is not a file")])
    rules = load_rules(files or [shipped("rules")], load_registry(), causes)
    if not _written(rules):
        raise ConfigError([Problem(", ".join(files), 0, 0, "no rules in it")])
    return rules


def _written(rules: RuleSet) -> list[str]:
    """The names of the rules that stand in files."""
    return [rule.name for rule in rules if rule.position.path != BUILT_IN]


def check(arguments: argparse.Namespace) -> int:
    """Mistakes are errors (exit 2); what is probably one is a warning (exit 0)."""
    rules = _checked(arguments)
    for problem in lint(rules):
        print(f"warning: {problem}")
    count = len(_written(rules))
    print(f"{count} rule{'' if count == 1 else 's'}: ok")
    return 0


def _checked(arguments: argparse.Namespace) -> RuleSet:
    """The rules. Raises ConfigError with the mistakes of their causes as well."""
    problems: list[Problem] = []
    causes: CauseBook | None = None
    try:
        causes = load_causes(_causes_file(arguments), load_registry())
    except ConfigError as error:
        problems += error.problems
    try:
        rules = _rules(arguments.files, causes.names if causes else None)
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from error
    if problems:
        raise ConfigError(problems)
    return rules


def _causes_file(arguments: argparse.Namespace) -> str | Path:
    if arguments.causes:
        return str(arguments.causes)
    beside = (Path(name) / "causes.yaml" for name in arguments.files if name)
    return next((path for path in beside if path.is_file()), shipped("rules") / "causes.yaml")


def test(arguments: argparse.Namespace) -> int:
    """Exit 1 when a test failed."""
    results = list(_results(arguments.files))
    failed = [result for result in results if not result.passed]
    for result in failed:
        for line in result.lines:
            print(line)
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    if not results:
        print("no tests in these files", file=sys.stderr)
    return 1 if failed or not results else 0


def _results(files: Sequence[str]) -> Iterator[Result]:
    registry = load_registry()
    tests = [name for name in files if _is_promtool(name)]
    for name in tests:
        yield from run_promtool_file(name, registry)
    rest = [name for name in files if name not in tests]
    if rest or not files:
        rules = _rules(rest)
        yield from run_tests(rules, registry, _written(rules))


def _is_promtool(name: str) -> bool:
    return Path(name).is_file() and is_promtool_file(read_yaml(name))


def list_(arguments: argparse.Namespace) -> int:
    """One line a rule."""
    for rule in _rules(arguments.files):
        shadow = " (shadow)" if rule.shadow else ""
        position = (
            f"{rule.position.path}:{rule.position.line}"
            if rule.position.line
            else rule.position.path
        )
        print(
            f"{rule.name:24} {rule.each:5} {rule.severity:8} {len(rule.tests):2} tests  "
            f"{position}{shadow}"
        )
    return 0


def print_schema(_arguments: argparse.Namespace) -> int:
    print(json.dumps(schema(), indent=2))
    return 0


def export(arguments: argparse.Namespace) -> int:
    """The file on standard output, what is not in it on standard error."""
    wanted = ExportOptions(step_s=arguments.step, closed_windows=arguments.prometheus_2)
    made = export_rules(_rules(arguments.files), arguments.to, load_registry(), wanted)
    print(made.text, end="")
    for warning in made.warnings:
        print(f"note: {warning}", file=sys.stderr)
    return 0


def run_backtest(arguments: argparse.Namespace) -> int:
    """What would have fired, when, for how long; with --diff, what differs."""
    config = options.config_of(arguments)
    sets = [_rules(arguments.rules)] + ([_rules(arguments.diff)] if arguments.diff else [])
    pasts = backtest(
        _ticks(config, arguments.recordings), sets, load_registry(), progress=_Progress().at
    )
    past = pasts[0]
    print(
        f"{past.ticks} rounds over {past.gpu_days:.2f} GPU-days, "
        f"{len(past.episodes)} findings of {len(_written(sets[0]))} rules"
    )
    lines = _differences(pasts) if len(pasts) > 1 else (_episode(e, past) for e in past.episodes)
    for line in lines:
        print(line)
    return 0


class _Progress:
    """A line on the terminal that is written over, and nothing elsewhere."""

    def __init__(self) -> None:
        self._count = 0

    def at(self, now_s: float) -> None:
        self._count += 1
        if self._count % 500 == 0 and sys.stderr.isatty():
            print(f"\r{_time(now_s)}  {self._count} rounds", end="", file=sys.stderr, flush=True)


def _ticks(
    config: Config, recordings: Sequence[str]
) -> Iterator[tuple[float, Sequence[Observation]]]:
    derived = deriver(config.receivers.gpu, "")
    for path in recordings:
        for tick in RecordingReader(path).ticks():
            by_uuid = {reading.device.uuid: reading for reading in tick}
            now_s = max(reading.window.end_s for reading in tick)
            yield now_s, [derived.derive(r, by_uuid.get(r.device.parent)) for r in tick]


def _episode(episode: Episode, past: BacktestResult) -> str:
    end = _time(episode.ended_s) if episode.ended_s else "still open at the end"
    lasted = f"{episode.lasted_s(past.end_s) / 60:.0f} min"
    whom = episode.entity or "summary"
    shadow = " (shadow)" if episode.shadow else ""
    return f"{_time(episode.opened_s)}  {lasted:>8}  {episode.rule:24} {whom}  until {end}{shadow}"


def _differences(pasts: Sequence[BacktestResult]) -> Iterator[str]:
    found = differences(pasts[0], pasts[1])
    yield f"{len(pasts[1].episodes)} findings with the other rules, {len(found)} differences"
    for difference in found:
        if difference.before:
            yield f"- {_episode(difference.before, pasts[0])}"
        if difference.after:
            yield f"+ {_episode(difference.after, pasts[1])}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def run_explain(arguments: argparse.Namespace) -> int:
    """The parts of `expr` and `clear` with their values."""
    config = options.config_of(arguments)
    rule = _named(configured_rules(config), arguments.rule)
    if arguments.recording:
        store = _recorded(config, arguments.recording)
        return _explain(store, rule, arguments.entity)
    folder, _ = could_be_state_dir(config.state_dir, os.environ)
    if not (folder / "store").is_dir():
        raise OtelOfuError(
            f"no history in {folder}: is the agent running here? --recording FILE needs none"
        )
    with tempfile.TemporaryDirectory() as copy:
        copytree(folder / "store", Path(copy) / "store")  # the agent keeps the original
        store = Store(
            load_registry(),
            _retention(config),
            step_s=_step_s(config),
            state_dir=Path(copy) / "store",
            clock=SystemClock(),
        )
        return _explain(store, rule, arguments.entity)


def _named(rules: RuleSet, name: str) -> Rule:
    for rule in rules:
        if rule.name == name:
            return rule
    names = ", ".join(rule.name for rule in rules)
    raise ConfigError([Problem("rules explain", 0, 0, f"no rule {name!r}; there are: {names}")])


def _recorded(config: Config, path: str) -> Store:
    store = Store(load_registry(), _retention(config), step_s=_step_s(config))
    for _, observations in _ticks(config, [path]):
        store.write(observations)
    return store


def _retention(config: Config) -> Retention:
    return retention_for(configured_rules(config).expressions(), _step_s(config))


def _step_s(config: Config) -> float:
    return float(config.receivers.gpu.interval)


def _explain(store: Store, rule: Rule, wanted: str | None) -> int:
    slots = store.slots(rule.each)
    ids = [entity.id for entity in slots.by_column() if entity is not None]
    ids = [id_ for id_ in ids if wanted is None or wanted in (id_, id_.partition("/")[0])]
    if not ids:
        raise OtelOfuError(f"no {rule.each} {wanted or ''} in the history".replace("  ", " "))
    at_s = max(float(s) for s in slots.last_seen_s[: len(slots)])
    print(f"{rule.name} at {_time(at_s)} UTC")
    for id_ in ids[:MOST_EXPLAINED]:
        print(f"\n{rule.each} {id_}")
        for explanation in explain(NumpyEngine(store), rule, id_, at_s):
            for line in _lines(explanation):
                print(line)
    return 0


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f"  {explanation.title}:"
    for part in explanation.parts:
        yield f"  {'  ' * (part.depth + 1)}{part.text:60} {_shown(part.verdict, part.value)}"
    known = [e.coverage for e in explanation.evidence if not math.isnan(e.coverage)]
    if known:
        yield f"    data for {100 * min(known):.0f}% of the window that has least"


def _shown(verdict: int | None, value: float) -> str:
    if verdict is not None:
        return {HOLDS: "holds", CLEAR: "clear"}.get(verdict, "unknown")
    return "no value" if math.isnan(value) else f"{value:.6g}"
