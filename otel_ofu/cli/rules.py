"""`otel-ofu rules …`: for those who write rules.

Enters: rule files, recordings. Leaves: text; exit status 1 when a test failed or a file is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from otel_ofu.catalog.registry import load_registry
from otel_ofu.cli import options, rules_check, rules_history
from otel_ofu.cli.rules_history import FILES, rules_in, written
from otel_ofu.files.yaml import read_yaml
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.rules.files.shape import schema
from otel_ofu.rules.promql.recording import export_recordings
from otel_ofu.rules.promql.ruler import TARGETS, ExportOptions, export_rules
from otel_ofu.rules.tests.promtool import is_promtool_file, run_promtool_file
from otel_ofu.rules.tests.run import TestResult, run_tests


def add(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    rules_check.add(kinds)
    _files(kinds, "test", test, "run the tests in rule files, or files in promtool's format")
    _files(kinds, "list", list_, "list the rules")
    kinds.add_parser("schema", help="JSON Schema of a rule file, for editors").set_defaults(
        verb=print_schema
    )
    rules_history.add_backtest(kinds)
    _add_export(kinds)
    rules_history.add_explain(kinds)


def _files(
    kinds: options.Verbs, name: str, verb: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = kinds.add_parser(name, help=text, description=text)
    parser.add_argument("files", nargs="*", metavar="FILE", help=FILES)
    parser.set_defaults(verb=verb)
    return parser


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
    parser.add_argument(
        "--recording",
        action="store_true",
        help="figures of jobs as recording rules over the counters of GPUs, in place of the rules",
    )


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


def _results(files: Sequence[str]) -> Iterator[TestResult]:
    registry = load_registry()
    tests = [name for name in files if _is_promtool(name)]
    for name in tests:
        yield from run_promtool_file(name, registry)
    rest = [name for name in files if name not in tests]
    if rest or not files:
        rules = rules_in(rest)
        yield from run_tests(rules, registry, written(rules))


def _is_promtool(name: str) -> bool:
    return Path(name).is_file() and is_promtool_file(read_yaml(name))


def list_(arguments: argparse.Namespace) -> int:
    """One line a rule."""
    for rule in rules_in(arguments.files):
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
    if arguments.recording:
        if arguments.files:
            raise OtelOfuError("rules export: --recording takes no files")
        print(export_recordings(arguments.to, load_registry()), end="")
        return 0
    wanted = ExportOptions(step_s=arguments.step, closed_windows=arguments.prometheus_2)
    made = export_rules(rules_in(arguments.files), arguments.to, load_registry(), wanted)
    print(made.text, end="")
    for warning in made.warnings:
        print(f"note: {warning}", file=sys.stderr)
    return 0
