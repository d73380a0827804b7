"""Switches in the JSON configuration of DeepSpeed, which the command line names.

Enters: a process id and its arguments. Leaves: the listed keys with their values, as text.
Source: DeepSpeed, "Configuration JSON".
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from otel_ofu.evidence.flags.inside import read_inside
from otel_ofu.files.procfs import LONGEST_VALUE, ProcFs

OPTIONS = ("--deepspeed_config", "--deepspeed-config", "--deepspeed", "--ds_config")
MOST_BYTES = 2**20


class JsonConf:
    """Remembers nothing."""

    def __init__(self, procfs: ProcFs, names: Collection[str]) -> None:
        self._procfs = procfs
        self._names = frozenset(names)

    def read(self, pid: int, arguments: Sequence[str]) -> Mapping[str, str] | None:
        """None when a named file could not be read, or is no JSON."""
        folder = f"{self._procfs.root}/{pid}"
        try:
            for path in _named(arguments):
                whole = path if path.startswith("/") else f"{os.readlink(f'{folder}/cwd')}/{path}"  # noqa: PTH115
                text = read_inside(f"{folder}/root", whole, MOST_BYTES)
                return None if text is None else self._listed(msgspec.json.decode(text))
        except (OSError, ValueError, RecursionError):
            return None
        return {}

    def _listed(self, tree: object) -> dict[str, str]:
        found = ((name, _at(tree, name.split("."))) for name in self._names)
        return {name: text for name, text in found if text is not None}


def _named(arguments: Sequence[str]) -> Iterator[str]:
    for place, argument in enumerate(arguments):
        name, assigned, value = argument.partition("=")
        if name in OPTIONS:
            following = arguments[place + 1] if place + 1 < len(arguments) else ""
            path = value if assigned else following
            if path.endswith(".json"):
                yield path


def _at(tree: object, steps: Sequence[str]) -> str | None:
    """A switch, a number or a word as text; None where there is none."""
    for step in steps:
        if not isinstance(tree, dict):
            return None
        tree = tree.get(step)
    if isinstance(tree, bool):
        return str(tree).lower()
    return str(tree)[:LONGEST_VALUE] if isinstance(tree, int | float | str) else None
