"""flags.yaml and a user's additions -> a `FlagBook`.

Enters: files. Leaves: the book, or a ConfigError with every mistake and its place. A flag or fact
of a later file takes the place of one with the same id; severity S0 takes a flag out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from otel_ofu.evidence.flags.book import FlagBook
from otel_ofu.evidence.flags.rows import Fact, Flag, FlagFile, Look
from otel_ofu.files.shipped import shipped
from otel_ofu.files.yaml import Steps, YamlFile, convert, read_yaml
from otel_ofu.model.errors import ConfigError, Problem

Mistake = tuple[Steps, str]

_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FIELDS = {"status": ("TracerPid", "Cpus_allowed_list"), "device": ("architecture",)}


def load_flags(additions: Sequence[str | Path] = ()) -> FlagBook:
    """The flags of this installation and those of the user's files. Raises ConfigError."""
    flags: dict[str, Flag] = {}
    facts: dict[str, Fact] = {}
    problems: list[Problem] = []
    for path in (shipped("rules") / "flags.yaml", *additions):
        try:
            file = read_yaml(path)
            rows = convert(file, FlagFile)
        except ConfigError as error:
            problems += error.problems
            continue
        facts |= {fact.id: fact for fact in rows.facts}
        flags |= {flag.id: flag for flag in rows.flags}
        problems += _problems(file, rows, facts)
    if problems:
        raise ConfigError(problems)
    return FlagBook(tuple(flags.values()), tuple(facts.values()))


def _problems(file: YamlFile, rows: FlagFile, facts: Mapping[str, Fact]) -> Iterator[Problem]:
    found = [*_rows("facts", rows.facts), *_rows("flags", rows.flags)]
    for place, flag in enumerate(rows.flags):
        found += _of_flag(("flags", place), flag, facts)
    for steps, message in found:
        yield file.problem(steps, message)


def _rows(block: str, rows: Sequence[Flag | Fact]) -> Iterator[Mistake]:
    seen: set[str] = set()
    for place, row in enumerate(rows):
        steps: Steps = (block, place)
        if not _ID.fullmatch(row.id):
            yield (*steps, "id"), "expected letters, digits and _, 64 at most, as in flag(NAME)"
        if row.id in seen:
            yield (*steps, "id"), f"{row.id} stands twice in this file"
        seen.add(row.id)
        if not row.look:
            yield (*steps, "look"), "expected at least one place to look"
        for number, look in enumerate(row.look):
            for key, message in _of_look(look):
                yield (*steps, "look", number, *key), message


def _of_flag(steps: Steps, flag: Flag, facts: Mapping[str, Fact]) -> Iterator[Mistake]:
    for key in ("requires", "unless"):
        for place, name in enumerate(getattr(flag, key)):
            if name not in facts:
                yield (*steps, key, place), f"no fact {name}; there are: {', '.join(sorted(facts))}"
    if not flag.mechanism.strip():
        yield (*steps, "mechanism"), "expected one sentence on why it slows a job"
    if not flag.sources:
        yield (*steps, "sources"), "expected at least one https:// address"
    for place, source in enumerate(flag.sources):
        if not source.startswith("https://"):
            yield (*steps, "sources", place), "expected an https:// address"


def _of_look(look: Look) -> Iterator[Mistake]:
    if not look.where:
        yield ("where",), "expected at least one place"
    if sum(map(bool, (look.names, look.programs, look.words))) != 1:
        yield (), "expected one of names, programs and words"
    elif look.names:
        yield from _of_names(look)
    else:
        yield from _of_programs(look)
    if look.followed_by and not look.programs:
        yield ("followed_by",), "stands with programs alone"


def _of_names(look: Look) -> Iterator[Mistake]:
    bounds = set(look.tests) == {"below", "above"}
    if len(look.tests) != 1 and not bounds:
        given = ", ".join(look.tests) or "none"
        allowed = "set: true, equals, not_equals, has, contains, starts_with, below, above"
        yield (), f"expected one test of the value, found {given}; there are: {allowed}"
    if "ancestor" in look.where:
        yield ("where",), "options of ancestors are not read: ancestor needs programs or words"
    if "maps" in look.where and look.tests != ("set",):
        yield ("where",), "a library is there or not: maps needs set: true"
    for where in look.where:
        for place, name in enumerate(look.names):
            if message := _of_name(where, name):
                yield ("names", place), message


def _of_name(where: str, name: str) -> str:
    if where in ("env", "nccl_conf") and not _VARIABLE.fullmatch(name):
        return "no name of an environment variable"
    allowed = _FIELDS.get(where, (name,))
    return "" if name in allowed and name else f"expected one of: {', '.join(allowed)}"


def _of_programs(look: Look) -> Iterator[Mistake]:
    if look.tests or look.option:
        yield (), "programs and words have no value to test"
    if not set(look.where) <= {"argv", "ancestor"}:
        yield ("where",), "programs and words are looked for in argv and ancestor alone"
