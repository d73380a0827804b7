"""flags.yaml as types; its header explains the fields.

Enters: what somebody wrote. Leaves: `Flag`s and `Fact`s, each with the `Look`s that find it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["S0", "S1", "S2", "S3", "S4"]
Where = Literal["env", "nccl_conf", "deepspeed", "argv", "ancestor", "maps", "status", "device"]
Word = str | int | float

TESTS = (
    "set_",
    "equals",
    "not_equals",
    "has",
    "contains",
    "starts_with",
    "below",
    "above",
)


class Look(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to see a flag: where, under which names, with which value.

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
        asked = {name: getattr(self, name) for name in TESTS}
        # Below and above may be 0.
        given = (n for n, value in asked.items() if value or isinstance(value, float))
        return tuple(name.rstrip("_") for name in given)


class Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What flags may depend on; never reported.

    `absent: false` where a name that is not there means that the fact does not hold; by default
    it is then unknown.
    """

    id: str
    look: list[Look]
    absent: Literal["unknown", "false"] = "unknown"


class Flag(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that slows jobs. `requires` and `unless` name facts."""

    id: str
    severity: Severity
    look: list[Look]
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

    facts: list[Fact] = []
    flags: list[Flag] = []
