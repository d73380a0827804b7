"""`otel-ofu notify`: a test notification to one receiver, sent now.

Enters: the name of a receiver. Leaves: for each of its endpoints whether it took the notification;
exit status 1 when one did not.
"""

from __future__ import annotations

import argparse
import os

from otel_ofu.cli import options
from otel_ofu.model.clock import SystemClock
from otel_ofu.notify import send_test


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Sends a test notification to a receiver of the config, or to all Alertmanagers "
        "(`alertmanager`), past the outbox; ends with 1 if one of its endpoints did not take it."
    )
    parser.add_argument("--test", required=True, metavar="RECEIVER", help="its name in the config")
    options.add_config(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    config = options.config_of(arguments)
    try:
        results = send_test(config.route, arguments.test, SystemClock(), os.environ)
    except ValueError as error:
        raise options.misused(str(error), "--test") from error
    for result in results:
        print(f"{'-' if result.problem else '+'} {result.endpoint}  {result.problem or 'taken'}")
    return 1 if any(result.problem for result in results) else 0
