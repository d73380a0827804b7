"""`otel-ofu route` and `otel-ofu notify`: which way a diagnosis takes, and whether it arrives.

Enters: labels, or the name of a receiver. Leaves: text; exit status 1 when a sample was refused.
"""

from __future__ import annotations

import argparse
import os

from otel_ofu.cli import options
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.notify import explain, parse_labels, sample


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = "Shows which route a diagnosis with these labels takes, and who is told."
    parser.add_argument(
        "--explain",
        required=True,
        metavar="LABELS",
        help="such as severity=critical,ofu_job_id=42,ofu_entity=job",
    )
    options.add_config(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    config = options.config_of(arguments)
    try:
        labels = parse_labels(arguments.explain)
    except ValueError as error:
        raise ConfigError([Problem("--explain", 0, 0, str(error))]) from error
    for line in explain(config.route, labels, SystemClock().now_s()):
        print(line)
    return 0


def notify(arguments: argparse.Namespace) -> int:
    """Sends a sample and says for each place what came of it."""
    config = options.config_of(arguments)
    try:
        results = sample(config.route, arguments.test, SystemClock(), os.environ)
    except ValueError as error:
        raise ConfigError([Problem("--test", 0, 0, str(error))]) from error
    for result in results:
        print(f"{'-' if result.problem else '+'} {result.place}  {result.problem or 'taken'}")
    return 1 if any(result.problem for result in results) else 0
