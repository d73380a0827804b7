"""The verbs put together. Exit status: 0 done, 1 it could not run, 2 wrong words or wrong file.

Enters: the words of a command line. Leaves: an exit status; every error in one line on stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from otel_ofu import __version__
from otel_ofu.cli import demo, doctor, record, replay, run_agent
from otel_ofu.config import problem_lines
from otel_ofu.errors import ConfigError, OtelOfuError, SourceUnavailable

VERBS = (run_agent, demo, doctor, record, replay)
FAILED, MISUSED, INTERRUPTED = 1, 2, 130


def parser() -> argparse.ArgumentParser:
    """All verbs with their help."""
    top = argparse.ArgumentParser(
        prog="otel-ofu",
        description="Overall FLOP Utilization of GPUs, as OpenTelemetry metrics.",
        epilog="First steps: otel-ofu demo; otel-ofu doctor. `otel-ofu VERB --help` tells more.",
    )
    top.add_argument("--version", action="version", version=f"otel-ofu {__version__}")
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        verb.add(verbs)
    return top


def run(words: Sequence[str]) -> int:
    """Runs one verb. Never raises for anything that a user or a machine did."""
    arguments = parser().parse_args(words)
    try:
        status: int = arguments.verb(arguments)
        sys.stdout.flush()
    except ConfigError as error:
        return _say(problem_lines(error), MISUSED)
    except SourceUnavailable as error:
        return _say(
            f"otel-ofu: {error}" + (f"\n  -> {error.remedy}" if error.remedy else ""), FAILED
        )
    except OtelOfuError as error:
        return _say(f"otel-ofu: {error}", FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away: nothing to tell it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _say(text: str, status: int) -> int:
    print(text, file=sys.stderr)
    return status
