"""Does a flag stand on a process? Yes with what may be reported, no, or not known.

Enters: a flag, the facts, and the evidence of one process, which may hold secrets. Leaves:
`FlagMatch`, None, or a Gap. What may be reported is text that stands in flags.yaml, a number, or
"set". The test of a value is linear in its length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from otel_ofu.evidence.flags.catalogue import (
    Flag,
    FlagCatalogue,
    FlagFact,
    FlagMatcher,
    Where,
    Word,
)
from otel_ofu.evidence.flags.process import ProcessEvidence
from otel_ofu.evidence.flags.state import FlagSource
from otel_ofu.model import Gap, GapReason

SET = "set"
ANOTHER = "set to another value"
LONGEST_NUMBER = 24
"""Of characters: 15 digits on both sides of the point, no more. Starting value."""
_NEGATIVE = re.compile(r"-\.?\d.*")
_LAUNCHERS = 2
"""A script is its interpreter's second argument: `python3 /usr/bin/nsys profile ...`."""

_FALSE = frozenset({"0", "false", "no", "off", "none"})
_NUMBER = re.compile(r"[+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:[eE][+-]?\d{1,3})?")
_SEPARATOR = re.compile(r"[,;\s]")


def reported_value(matcher: FlagMatcher, value: str) -> str | None:
    """What may be reported of a value that passes the test; None when it does not."""
    if matcher.option:
        part = _option(matcher.option, value)
        return None if part is None else _judged(matcher, part)
    return _judged(matcher, value)


def is_switched_off(value: str) -> bool:
    """Whether an option is switched off: `--profile=false`."""
    return value.strip().lower() in _FALSE


def _judged(matcher: FlagMatcher, value: str) -> str | None:
    text = value.strip().lower()
    if matcher.set_:
        return SET
    if matcher.not_equals:
        return ANOTHER if _first(matcher.not_equals, text.__eq__) is None else None
    if matcher.has:
        return _listed(matcher.has, text)
    if matcher.below is not None or matcher.above is not None:
        return _number(matcher, text)
    return _worded(matcher, text)


def _worded(matcher: FlagMatcher, text: str) -> str | None:
    if matcher.equals:
        return _first(matcher.equals, text.__eq__)
    if matcher.starts_with:
        return _first(matcher.starts_with, text.startswith)
    return _first(matcher.contains, text.__contains__)


def _first(words: Iterable[Word], holds: Callable[[str], bool]) -> str | None:
    """The first word for which it holds, as flags.yaml writes it."""
    return next((str(word) for word in words if holds(str(word).lower())), None)


def _listed(words: Iterable[Word], text: str) -> str | None:
    """Of a list `a,b`; one that begins with ^ names what is left out, and has none."""
    parts = frozenset() if text.startswith("^") else frozenset(_SEPARATOR.split(text))
    found = [str(word) for word in words if str(word).lower() in parts]
    return ",".join(found) if found else None


def _number(matcher: FlagMatcher, text: str) -> str | None:
    if len(text) > LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    below = matcher.below is None or number < matcher.below
    above = matcher.above is None or number > matcher.above
    return f"{number:g}" if below and above else None


def _option(name: str, value: str) -> str | None:
    """The value of `name:5` or `name=5` in a list of them."""
    for part in _SEPARATOR.split(value):
        key, mark, rest = part.partition(":" if ":" in part else "=")
        if mark and key.strip().lower() == name.lower():
            return rest
    return None


def seen_in(matcher: FlagMatcher, arguments: Sequence[str]) -> str | None:
    """What may be reported of the first mark in a command line; None where there is none."""
    if matcher.programs:
        return _program(matcher, arguments)
    if matcher.words:
        return _phrase(matcher, arguments)
    return _options(matcher, arguments)


def _program(matcher: FlagMatcher, arguments: Sequence[str]) -> str | None:
    for index, argument in enumerate(arguments[:_LAUNCHERS]):
        name = argument.rpartition("/")[2]
        if name in matcher.programs:
            rest = arguments[index + 1 :]
            wanted = not matcher.followed_by or any(word in rest for word in matcher.followed_by)
            return name if wanted else None
    return None


def _phrase(matcher: FlagMatcher, arguments: Sequence[str]) -> str | None:
    first, *others = matcher.words
    for index, argument in enumerate(arguments):
        if argument == first and list(arguments[index + 1 : index + len(matcher.words)]) == others:
            return " ".join(matcher.words)
    return None


def _options(matcher: FlagMatcher, arguments: Sequence[str]) -> str | None:
    names = {_plain(name) for name in matcher.names}
    for value in _values(names, arguments):
        shown = reported_value(matcher, value)
        if shown is not None and not (shown == SET and is_switched_off(value)):
            return shown
    return None


def _values(names: set[str], arguments: Sequence[str]) -> Iterator[str]:
    """`--a=1`, `--a 1`, `--a` and `x.a=1`, with - and _ alike."""
    for index, argument in enumerate(arguments):
        name, assigned, value = argument.partition("=")
        if _plain(name) not in names:
            continue
        if assigned:
            yield value
        elif name.startswith("-"):
            yield _next(arguments, index)


def _next(arguments: Sequence[str], index: int) -> str:
    following = arguments[index + 1] if index + 1 < len(arguments) else ""
    is_option = following.startswith("-") and not _NEGATIVE.fullmatch(following)
    return "" if is_option else following


def _plain(name: str) -> str:
    return name.lstrip("-").replace("_", "-")


MAPS_UNREAD = Gap(GapReason.NOT_PERMITTED, "libraries of the process not readable")
JSON_UNREAD = Gap(GapReason.NOT_PERMITTED, "configuration of DeepSpeed not readable")
CONF_UNREAD = Gap(GapReason.NOT_PERMITTED, "configuration files of NCCL not all readable")


@dataclass(frozen=True, slots=True)
class FlagMatch:
    """A flag, and what may be reported of its value."""

    value: str
    source: FlagSource


Answer = FlagMatch | Gap | None


@dataclass(frozen=True, slots=True)
class FlagEvaluator:
    """Of one process on one device. `architecture` is "" where it is not known."""

    evidence: ProcessEvidence
    catalogue: FlagCatalogue
    architecture: str = ""
    _facts: dict[str, bool | None] = field(default_factory=dict)

    def judge(self, flag: Flag) -> Answer:
        """Facts that are not known neither make nor excuse a flag."""
        answer = self._first(flag.look)
        if isinstance(answer, FlagMatch) and self._is_excused(flag):
            return None
        return answer

    def _is_excused(self, flag: Flag) -> bool:
        lacking = any(self._holds(name) is False for name in flag.requires)
        return lacking or any(self._holds(name) for name in flag.unless)

    def _holds(self, name: str) -> bool | None:
        if name not in self._facts:
            fact = next(fact for fact in self.catalogue.facts if fact.id == name)
            self._facts[name] = self._fact(fact)
        return self._facts[name]

    def _fact(self, fact: FlagFact) -> bool | None:
        answer = self._first(fact.look)
        if isinstance(answer, FlagMatch):
            return True
        there = any(self._is_there(matcher) for matcher in fact.look)
        return False if there or (fact.absent == "false" and answer is None) else None

    def _is_there(self, matcher: FlagMatcher) -> bool:
        """Whether a name of the matcher has a value at all."""
        if "device" in matcher.where and self.architecture:
            return True
        environment = self.evidence.environment or self.evidence.inherited
        if "env" in matcher.where and any(name in environment for name in matcher.names):
            return True
        present = FlagMatcher(where=["argv"], names=matcher.names, contains=[""])
        return (
            "argv" in matcher.where
            and bool(matcher.names)
            and isinstance(self._argued(present), FlagMatch)
        )

    def _first(self, matchers: list[FlagMatcher]) -> Answer:
        gap: Gap | None = None
        for matcher in matchers:
            for where in matcher.where:
                answer = self._at(where, matcher)
                if isinstance(answer, FlagMatch):
                    return answer
                gap = gap or answer
        return gap

    def _at(self, where: Where, matcher: FlagMatcher) -> Answer:
        readers: Mapping[Where, Callable[[FlagMatcher], Answer]] = {
            "env": self._environment,
            "nccl_conf": self._conf,
            "deepspeed": self._configured,
            "argv": self._argued,
            "ancestor": self._ancestors,
            "maps": self._mapped,
            "status": self._status,
            "device": self._device,
        }
        return readers[where](matcher)

    def _environment(self, matcher: FlagMatcher) -> Answer:
        own = self.evidence.environment
        if own is not None:
            return _of_values(matcher, own, FlagSource.ENVIRONMENT)
        # What is not seen on an ancestor may still be set on the process itself.
        inherited = _of_values(matcher, self.evidence.inherited, FlagSource.ANCESTOR_ENVIRONMENT)
        return inherited or Gap(GapReason.NOT_PERMITTED, self.evidence.why)

    def _conf(self, matcher: FlagMatcher) -> Answer:
        own = self.evidence.environment or self.evidence.inherited
        values = {k: v for k, v in self.evidence.conf.values.items() if k not in own}
        seen = _of_values(matcher, values, FlagSource.NCCL_CONF)
        return seen or (None if self.evidence.conf.whole else CONF_UNREAD)

    def _configured(self, matcher: FlagMatcher) -> Answer:
        if self.evidence.deepspeed is None:
            return JSON_UNREAD
        return _of_values(matcher, self.evidence.deepspeed, FlagSource.DEEPSPEED_CONF)

    def _argued(self, matcher: FlagMatcher) -> Answer:
        value = seen_in(matcher, self.evidence.arguments)
        if value is not None:
            return FlagMatch(value, FlagSource.COMMAND_LINE)
        # A process that overwrote its environment put a title over the command line before it.
        return Gap(GapReason.NOT_PERMITTED, self.evidence.why) if self.evidence.wiped else None

    def _ancestors(self, matcher: FlagMatcher) -> Answer:
        for arguments in self.evidence.lineage:
            value = seen_in(matcher, arguments)
            if value is not None:
                return FlagMatch(value, FlagSource.ANCESTOR_COMMAND_LINE)
        return None

    def _mapped(self, matcher: FlagMatcher) -> Answer:
        if self.evidence.libraries is None:
            return MAPS_UNREAD
        found = next((name for name in matcher.names if name in self.evidence.libraries), None)
        return None if found is None else FlagMatch(found, FlagSource.LIBRARY)

    def _status(self, matcher: FlagMatcher) -> Answer:
        seen = _of_values(matcher, self.evidence.status, FlagSource.STATUS)
        # The process id of the debugger is of no interest.
        return FlagMatch(SET, FlagSource.STATUS) if seen and "TracerPid" in matcher.names else seen

    def _device(self, matcher: FlagMatcher) -> Answer:
        if not self.architecture:
            return Gap(GapReason.NOT_READY, "architecture of the device not known")
        return _of_values(matcher, {"architecture": self.architecture}, FlagSource.STATUS)


def _of_values(
    matcher: FlagMatcher, values: Mapping[str, str], source: FlagSource
) -> FlagMatch | None:
    for name in matcher.names:
        if name in values and (value := reported_value(matcher, values[name])) is not None:
            return FlagMatch(value, source)
    return None
