"""The verbs put together. Exit status: 0 done, 1 it could not run, 2 a user's mistake.

Enters: the arguments of a command line. Leaves: an exit status; every error in one line on stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from otel_ofu import __version__
from otel_ofu.model.errors import ConfigError, OtelOfuError, SourceUnavailable

FAILED, MISUSED, INTERRUPTED = 1, 2, 130

VERBS: Mapping[str, tuple[str, str]] = {
    "run": ("run_agent", "read GPUs, derive OFU, send it, judge it"),
    "demo": ("demo", "a simulated node of 8 GPUs with scripted troubles"),
    "doctor": ("doctor", "what works on this machine, and what to do about the rest"),
    "record": ("record", "write what the source reads into a file"),
    "replay": ("replay", "play a recording, or a CSV with a column map"),
    "report": ("report", "OFU beside the MFU that jobs report, as a page"),
    "rules": ("rules", "check, test, try, export and explain rules"),
    "explain": ("explain", "everything that a diagnosis rests on"),
    "route": ("route", "which routes match an alert"),
    "notify": ("notify", "send a test notification to a receiver"),
    "mfu": ("mfu", "model FLOPs per token of a Hugging Face config.json"),
}
"""Verb -> its module in this folder, and what it does. Only the module that is used is imported."""


def parser(given: Sequence[str]) -> argparse.ArgumentParser:
    """The parser for these arguments: the verb that they name in full, the others by name."""
    top = argparse.ArgumentParser(
        prog="otel-ofu",
        description="Overall FLOP Utilization of GPUs, as OpenTelemetry metrics.",
        epilog="First steps: otel-ofu demo; otel-ofu doctor. `otel-ofu VERB --help` shows more.",
    )
    top.add_argument("--version", action="version", version=f"otel-ofu {__version__}")
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    wanted = next((argument for argument in given if not argument.startswith("-")), "")
    for verb, (module, text) in VERBS.items():
        made = verbs.add_parser(verb, help=text)
        if verb == wanted:
            import_module(f"otel_ofu.cli.{module}").add(made)
    return top


def run(given: Sequence[str]) -> int:
    """Runs one verb. Never raises for anything that a user or a machine did."""
    if sys.stdout is None:  # closed by whoever started it
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    try:
        arguments = parser(given).parse_args(given)
        status: int = arguments.verb(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (OtelOfuError, OSError) as error:
        return _failed(error)
    return status


def _failed(error: OtelOfuError | OSError) -> int:
    if isinstance(error, ConfigError):
        return _write_error(error.with_carets(), MISUSED)
    if isinstance(error, SourceUnavailable) and error.remedy:
        return _write_error(f"otel-ofu: {error}\n  -> {error.remedy}", FAILED)
    if isinstance(error, OtelOfuError):
        return _write_error(f"otel-ofu: {error}", FAILED)
    _give_up_stdout()
    if isinstance(error, BrokenPipeError):  # the reader of our output went away
        return 0
    hint = "; run it as the user of the agent" if isinstance(error, PermissionError) else ""
    return _write_error(f"otel-ofu: {error.filename or 'output'}: {error.strerror}{hint}", FAILED)


def _give_up_stdout() -> None:
    """What is still buffered goes nowhere, and without a word at the end of the process."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_error(text: str, status: int) -> int:
    print(text, file=sys.stderr)
    return status
