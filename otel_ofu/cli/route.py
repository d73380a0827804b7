"""`otel-ofu route`: which routes match an alert.

Enters: labels. Leaves: text.
"""

from __future__ import annotations

import argparse

from otel_ofu.cli import options
from otel_ofu.model.clock import SystemClock
from otel_ofu.notify import explain, parse_labels


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Shows which route matches an alert with these labels, and who is notified."
    )
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
        raise options.misused(str(error), "--explain") from error
    for line in explain(config.route, labels, SystemClock().now_s()):
        print(line)
    return 0
