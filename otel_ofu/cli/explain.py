"""`otel-ofu explain`: everything that a diagnosis rests on.

Enters: the id of a finding, or nothing for a list. Leaves: text.
"""

from __future__ import annotations

import argparse
import os
from datetime import UTC, datetime

from otel_ofu.app.findings import reported
from otel_ofu.app.state import could_be_state_dir
from otel_ofu.cli import options
from otel_ofu.diagnose import explain_finding
from otel_ofu.model import Finding
from otel_ofu.model.errors import OtelOfuError

MOST_LISTED = 30


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "All evidence of a recent diagnosis of the agent on this machine: what speaks for "
        "each cause, what against it, what could not be read. Without an id, the latest are listed."
    )
    parser.add_argument("finding", nargs="?", metavar="FINDING", help="id, or its first letters")
    options.add_config(parser)
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    config = options.config_of(arguments)
    folder, _ = could_be_state_dir(config.state_dir, os.environ)
    if not folder.is_dir():
        raise OtelOfuError(f"no agent has kept anything in {folder}; name its config with -c")
    known = list(reported(folder))
    if arguments.finding is None:
        for finding in known[-MOST_LISTED:]:
            print(_line(finding))
        count = "1 finding" if len(known) == 1 else f"{len(known) or 'no'} findings"
        print(f"{count} in {folder}")
        return 0
    found = [d for d in known if d.fingerprint.startswith(arguments.finding)]
    if not found:
        raise OtelOfuError(
            f"no finding {arguments.finding!r} in {folder}; `otel-ofu explain` lists them"
        )
    print(explain_finding(next((d for d in reversed(found) if d.kind == "opened"), found[-1])))
    return 0


def _line(finding: Finding) -> str:
    at = datetime.fromtimestamp(finding.at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")
    cause = finding.causes[0].title if finding.causes else "no known cause"
    return f"{finding.fingerprint}  {at}  {finding.kind:8}  {finding.summary}  ({cause})"
