"""`otel-ofu notify`: a sample to one receiver, sent now.

Enters: the name of a receiver. Leaves: for each of its places whether it took the sample.
"""

from __future__ import annotations

import argparse

from otel_ofu.cli import options, route


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Sends a sample diagnosis to a receiver of the config, or to all Alertmanagers "
        "(`alertmanager`), past the outbox; ends with 1 if one of its places did not take it."
    )
    parser.add_argument("--test", required=True, metavar="RECEIVER", help="its name in the config")
    options.add_config(parser)
    parser.set_defaults(verb=route.notify)
