"""Options that several verbs share, and what they mean.

Enters: parsed arguments. Leaves: a config, a host name, a screen.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO, TypeVar

from otel_ofu.config import Config, load_config
from otel_ofu.export.console import GpuTable, Lines
from otel_ofu.files.settings import CheckContext, Settings, mistakes, parse_duration
from otel_ofu.model.errors import ConfigError, Problem

log = logging.getLogger("otel_ofu")

T = TypeVar("T", bound=Settings)
# Starting values: how often a line is written over on a terminal, and added to a log.
TERMINAL_S, LOG_S = 0.5, 15.0

Verbs = Any  # argparse._SubParsersAction, which has no public name


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-c", "--config", metavar="FILE", help="configuration; without it the defaults hold"
    )


def config_of(arguments: argparse.Namespace) -> Config:
    """The config that was named, or the defaults. ConfigError with all mistakes."""
    return Config() if arguments.config is None else load_config(arguments.config)


def checked(settings: T, names: Mapping[str, str] | None = None) -> T:
    """Settings that were made of options. ConfigError with every mistake, under its option.

    `names`: the options that are not called as their key.
    """
    problems = []
    for steps, message in mistakes(settings, CheckContext(time.time(), os.environ)):
        key = str(steps[0])
        option = (names or {}).get(key, f"--{key.replace('_', '-')}")
        problems.append(Problem(option, 0, 0, message))
    if problems:
        raise ConfigError(problems)
    return settings


def duration(text: str) -> float:
    """An argparse type: `60s`, `5m`."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if seconds <= 0:
        raise argparse.ArgumentTypeError("must be longer than nothing")
    return float(seconds)


def speed(text: str) -> float:
    """An argparse type: a positive number, or 0 for as fast as possible."""
    if not re.fullmatch(r"\d{1,6}(\.\d{1,3})?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 999999")
    return float(text)


def host_name() -> str:
    return socket.gethostname()


def screen(
    mode: str, title: str, *, sends: bool = False, out: TextIO | None = None
) -> list[Lines | GpuTable]:
    """What the config calls console.mode; `auto` depends on what the output is."""
    out = out or sys.stdout
    if mode == "auto":
        mode = "table" if out.isatty() else ("off" if sends else "lines")
    if mode == "off":
        return []
    if mode == "lines":
        return [Lines(out)]
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it

    return [GpuTable(Console(file=out), title=title)]


def show(screens: Sequence[Lines | GpuTable]) -> Callable[[str], None]:
    """Where a sentence for people goes: the screens, or without any the log."""

    def to_screens(text: str) -> None:
        for each in screens:
            each.note(text)
        if not screens:
            log.warning("%s", text)

    return to_screens


def logging_to_stderr(level: str) -> None:
    """One line a message, time first."""
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr
    )


def misused(message: str, where: str = "command line") -> ConfigError:
    """A mistake in the arguments; `where`: the option or the verb."""
    return ConfigError([Problem(where, 0, 0, message)])


def refuse_both(first: str, second: str, given: Sequence[bool]) -> None:
    """ConfigError when both were given."""
    if all(given):
        raise misused(f"{first} and {second} exclude each other")


class ProgressWriter:
    """Where a long run has come to: a line that is written over, or now and then one in a log."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._written_s = time.monotonic()
        self._open = False

    def at(self, text: str, time_s: float) -> None:
        now_s = time.monotonic()
        if now_s - self._written_s < (TERMINAL_S if self._terminal else LOG_S):
            return
        self._written_s = now_s
        text = f"{text}: {datetime.fromtimestamp(time_s, UTC):%Y-%m-%d %H:%M}"
        if self._terminal:
            self._open = True
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
