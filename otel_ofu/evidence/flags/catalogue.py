"""The catalogue of flags: flags.yaml and a user's files as types, and the names read for them.

Enters: files; the header of flags.yaml explains the fields. Leaves: `FlagCatalogue`, read-only, or
a ConfigError with every mistake and its position. A flag or fact of a later file replaces one with
the same id; severity S0 takes a flag out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

import msgspec

from otel_ofu.files.installed import shipped
from otel_ofu.files.yaml import Steps, YamlFile, convert_usable, read_yaml
from otel_ofu.model.errors import ConfigError, Problem

Severity = Literal["S0", "S1", "S2", "S3", "S4"]
Where = Literal["env", "nccl_conf", "deepspeed", "argv", "ancestor", "maps", "status", "device"]
Word = str | int | float

TESTS = ("set_", "equals", "not_equals", "has", "contains", "starts_with", "below", "above")


class FlagMatcher(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to find a flag: where, under which names, with which value.

    One of `names` (variables, options, library names, fields), `programs` (names of executables)
    and `words` (arguments in a row). `option` is a part of the value: `name:5` or `name=5`.
    """

    where: list[Where]
    names: list[str] = []
    programs: list[str] = []
    words: list[str] = []
    followed_by: list[str] = []
    option: str = ""
    set_: bool = msgspec.field(name="set", default=False)
    equals: list[Word] = []
    not_equals: list[Word] = []
    has: list[Word] = []
    contains: list[str] = []
    starts_with: list[str] = []
    below: float | None = None
    above: float | None = None

    @property
    def tests(self) -> tuple[str, ...]:
        """The names of the tests that are given."""
        tests = {name: getattr(self, name) for name in TESTS}
        # Below and above may be 0.
        given = (n for n, value in tests.items() if value or isinstance(value, float))
        return tuple(name.rstrip("_") for name in given)


class FlagFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What flags may depend on; never reported.

    `absent: false` where a name that is not there means that the fact does not hold; by default
    it is then unknown.
    """

    id: str
    look: list[FlagMatcher]
    absent: Literal["unknown", "false"] = "unknown"


class Flag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that slows jobs. `requires` and `unless` name facts."""

    id: str
    severity: Severity
    look: list[FlagMatcher]
    mechanism: str
    sources: list[str]
    requires: list[str] = []
    unless: list[str] = []
    condition: str = ""
    legitimate: str = ""
    measured: str = ""
    counters: str = ""


class FlagFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole file."""

    facts: list[FlagFact] = []
    flags: list[Flag] = []


CONF_FILE = "NCCL_CONF_FILE"
KEY = "flag:"
NOT_FLAGGED = "S0"


@dataclass(frozen=True)
class FlagCatalogue:
    """`flags` are all of the file, those that are not to be flagged (S0) among them."""

    flags: tuple[Flag, ...]
    facts: tuple[FlagFact, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """What `flag(…)` may name in a condition."""
        return frozenset(flag.id for flag in self.watched)

    @cached_property
    def watched(self) -> tuple[Flag, ...]:
        """The flags that are searched for, the worst first."""
        worst = sorted(self.flags, key=lambda flag: flag.severity, reverse=True)
        return tuple(flag for flag in worst if flag.severity != NOT_FLAGGED)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The only names that are ever read out of an environment."""
        return frozenset(self._names("env") | self._names("nccl_conf") | {CONF_FILE})

    @cached_property
    def conf_names(self) -> frozenset[str]:
        """The only names that are ever read out of NCCL's configuration files."""
        return self._names("nccl_conf")

    @cached_property
    def deepspeed_keys(self) -> frozenset[str]:
        """The only keys that are ever read out of DeepSpeed's configuration."""
        return self._names("deepspeed")

    @cached_property
    def libraries(self) -> tuple[str, ...]:
        """Parts of the names of libraries."""
        return tuple(sorted(self._names("maps")))

    def _names(self, where: Where) -> frozenset[str]:
        return frozenset(
            n for matcher in self._matchers() if where in matcher.where for n in matcher.names
        )

    def _matchers(self) -> Iterator[FlagMatcher]:
        rows: Sequence[Flag | FlagFact] = (*self.watched, *self.facts)
        for row in rows:
            yield from row.look


def key_of(flag_id: str) -> str:
    """The registry key of a flag: `flag:TORCH_DISTRIBUTED_DEBUG`."""
    return KEY + flag_id


Mistake = tuple[Steps, str]

_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FIELDS = {"status": ("TracerPid", "Cpus_allowed_list"), "device": ("architecture",)}


def load_flags(additions: Sequence[str | Path] = ()) -> FlagCatalogue:
    """The flags of this installation and those of the user's files. Raises ConfigError."""
    flags: dict[str, Flag] = {}
    facts: dict[str, FlagFact] = {}
    problems: list[Problem] = []
    for path in (shipped("rules") / "flags.yaml", *additions):
        try:
            file = read_yaml(path)
            rows, left_out = convert_usable(file, FlagFile)
        except ConfigError as error:
            problems += error.problems
            continue
        facts |= {fact.id: fact for fact in rows.facts}
        flags |= {flag.id: flag for flag in rows.flags}
        problems += [*left_out, *_problems(file, rows, facts)]
    if problems:
        raise ConfigError(problems)
    return FlagCatalogue(tuple(flags.values()), tuple(facts.values()))


def _problems(file: YamlFile, rows: FlagFile, facts: Mapping[str, FlagFact]) -> Iterator[Problem]:
    found = [*_rows("facts", rows.facts), *_rows("flags", rows.flags)]
    for index, flag in enumerate(rows.flags):
        found += _of_flag(("flags", index), flag, facts)
    for steps, message in found:
        yield file.problem(steps, message)


def _rows(block: str, rows: Sequence[Flag | FlagFact]) -> Iterator[Mistake]:
    seen: set[str] = set()
    for index, row in enumerate(rows):
        steps: Steps = (block, index)
        if not _ID.fullmatch(row.id):
            yield (*steps, "id"), "expected letters, digits and _, 64 at most, as in flag(NAME)"
        if row.id in seen:
            yield (*steps, "id"), f"{row.id} is listed twice in this file"
        seen.add(row.id)
        if not row.look:
            yield (*steps, "look"), "expected at least one entry"
        for number, matcher in enumerate(row.look):
            for key, message in _of_matcher(matcher):
                yield (*steps, "look", number, *key), message


def _of_flag(steps: Steps, flag: Flag, facts: Mapping[str, FlagFact]) -> Iterator[Mistake]:
    for key in ("requires", "unless"):
        for index, name in enumerate(getattr(flag, key)):
            if name not in facts:
                yield (
                    (*steps, key, index),
                    f"unknown fact {name}; known: {', '.join(sorted(facts))}",
                )
    if not flag.mechanism.strip():
        yield (*steps, "mechanism"), "expected one sentence on why it slows a job"
    if not flag.sources:
        yield (*steps, "sources"), "expected at least one https:// address"
    for index, source in enumerate(flag.sources):
        if not source.startswith("https://"):
            yield (*steps, "sources", index), "expected an https:// address"


def _of_matcher(matcher: FlagMatcher) -> Iterator[Mistake]:
    if not matcher.where:
        yield (("where",), f"expected at least one of: {', '.join(get_args(Where))}")
    if sum(map(bool, (matcher.names, matcher.programs, matcher.words))) != 1:
        yield (), "expected one of names, programs and words"
    elif matcher.names:
        yield from _of_names(matcher)
    else:
        yield from _of_programs(matcher)
    if matcher.followed_by and not matcher.programs:
        yield ("followed_by",), "stands with programs alone"


def _of_names(matcher: FlagMatcher) -> Iterator[Mistake]:
    bounds = set(matcher.tests) == {"below", "above"}
    if len(matcher.tests) != 1 and not bounds:
        given = ", ".join(matcher.tests) or "none"
        allowed = "set: true, equals, not_equals, has, contains, starts_with, below, above"
        yield (), f"expected one test of the value, found {given}; allowed: {allowed}"
    if "ancestor" in matcher.where:
        yield ("where",), "options of ancestors are not read: ancestor needs programs or words"
    if "maps" in matcher.where and matcher.tests != ("set",):
        yield ("where",), "a library is there or not: maps needs set: true"
    for where in matcher.where:
        for index, name in enumerate(matcher.names):
            if message := _of_name(where, name):
                yield ("names", index), message


def _of_name(where: str, name: str) -> str:
    if where in ("env", "nccl_conf") and not _VARIABLE.fullmatch(name):
        return "not a name of an environment variable"
    allowed = _FIELDS.get(where, (name,))
    return "" if name in allowed and name else f"expected one of: {', '.join(allowed)}"


def _of_programs(matcher: FlagMatcher) -> Iterator[Mistake]:
    if matcher.tests or matcher.option:
        yield (), "programs and words have no value to test"
    if not set(matcher.where) <= {"argv", "ancestor"}:
        yield ("where",), "programs and words are searched for in argv and ancestor alone"
