"""Does a flag stand on a process? Yes, no, or not known.

Enters: a flag, the facts, and the evidence of one process, which may hold secrets. Leaves: True,
False or a Gap; nothing of a value.
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
from otel_ofu.model import Gap, GapReason

LONGEST_NUMBER = 24
"""Of characters: 15 digits on both sides of the point, no more. Starting value."""

_NEGATIVE = re.compile(r"-\.?\d.*")
_LAUNCHERS = 2
"""A script is its interpreter's second argument: `python3 /usr/bin/nsys profile ...`."""

_FALSE = frozenset({"0", "false", "no", "off", "none"})
_NUMBER = re.compile(r"[+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:[eE][+-]?\d{1,3})?")
_SEPARATOR = re.compile(r"[,;\s]")


def passes(matcher: FlagMatcher, value: str) -> bool:
    """Whether a value passes the test; linear in its length."""
    if matcher.option:
        part = _option(matcher.option, value)
        return part is not None and _passes(matcher, part)
    return _passes(matcher, value)


def _passes(matcher: FlagMatcher, value: str) -> bool:
    text = value.strip().lower()
    if matcher.set_:
        return True
    if matcher.not_equals:
        return not _any(matcher.not_equals, text.__eq__)
    if matcher.below is not None or matcher.above is not None:
        return _is_within(matcher, text)
    return (
        _any(matcher.equals, text.__eq__)
        or _any(matcher.has, _parts(text).__contains__)
        or _any(matcher.starts_with, text.startswith)
        or _any(matcher.contains, text.__contains__)
    )


def _any(words: Iterable[Word], holds: Callable[[str], bool]) -> bool:
    return any(holds(str(word).lower()) for word in words)


def _parts(text: str) -> frozenset[str]:
    """Of a list `a,b`; one that begins with ^ names what is left out, and has none."""
    return frozenset() if text.startswith("^") else frozenset(_SEPARATOR.split(text))


def _is_within(matcher: FlagMatcher, text: str) -> bool:
    if len(text) > LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        return False
    number = float(text)
    below = matcher.below is None or number < matcher.below
    return below and (matcher.above is None or number > matcher.above)


def _option(name: str, value: str) -> str | None:
    """The value of `name:5` or `name=5` in a list of them."""
    for part in _SEPARATOR.split(value):
        key, mark, rest = part.partition(":" if ":" in part else "=")
        if mark and key.strip().lower() == name.lower():
            return rest
    return None


def is_in(matcher: FlagMatcher, arguments: Sequence[str]) -> bool:
    """Whether a mark stands in a command line."""
    if matcher.programs:
        return _is_program(matcher, arguments)
    if matcher.words:
        return _is_phrase(matcher.words, arguments)
    return _is_option(matcher, arguments)


def _is_program(matcher: FlagMatcher, arguments: Sequence[str]) -> bool:
    for index, argument in enumerate(arguments[:_LAUNCHERS]):
        if argument.rpartition("/")[2] in matcher.programs:
            rest = arguments[index + 1 :]
            return not matcher.followed_by or any(word in rest for word in matcher.followed_by)
    return False


def _is_phrase(words: Sequence[str], arguments: Sequence[str]) -> bool:
    length = len(words)
    return any(list(arguments[n : n + length]) == words for n in range(len(arguments)))


def _is_option(matcher: FlagMatcher, arguments: Sequence[str]) -> bool:
    """A switch that is switched off, as in `--profile=false`, is none."""
    names = {_plain(name) for name in matcher.names}
    return any(
        passes(matcher, value) and not (matcher.set_ and value.strip().lower() in _FALSE)
        for value in _values(names, arguments)
    )


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


Answer = bool | Gap
"""Whether a flag stands on a process; a gap where that is not known."""


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
        return False if answer is True and self._is_excused(flag) else answer

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
        if answer is True:
            return True
        there = any(self._is_there(matcher) for matcher in fact.look)
        return False if there or (fact.absent == "false" and answer is False) else None

    def _is_there(self, matcher: FlagMatcher) -> bool:
        """Whether a name of the matcher has a value at all."""
        if "device" in matcher.where and self.architecture:
            return True
        environment = self.evidence.environment or self.evidence.inherited
        if "env" in matcher.where and any(name in environment for name in matcher.names):
            return True
        present = FlagMatcher(where=["argv"], names=matcher.names, contains=[""])
        is_argument = "argv" in matcher.where and bool(matcher.names)
        return is_argument and self._argued(present) is True

    def _first(self, matchers: list[FlagMatcher]) -> Answer:
        """True if it stands anywhere, else the first gap."""
        gap: Gap | None = None
        for matcher in matchers:
            for where in matcher.where:
                answer = self._at(where, matcher)
                if answer is True:
                    return True
                gap = gap or (answer or None)
        return gap or False

    def _at(self, where: Where, matcher: FlagMatcher) -> Answer:
        readers: Mapping[Where, Callable[[FlagMatcher], Answer]] = {
            "env": self._environment,
            "nccl_conf": self._conf,
            "deepspeed": self._configured,
            "argv": self._argued,
            "ancestor": self._ancestors,
            "maps": self._mapped,
            "status": lambda matcher: _of_values(matcher, self.evidence.status),
            "device": self._device,
        }
        return readers[where](matcher)

    def _environment(self, matcher: FlagMatcher) -> Answer:
        own = self.evidence.environment
        if own is not None:
            return _of_values(matcher, own)
        # What is not seen on an ancestor may still be set on the process itself.
        inherited = _of_values(matcher, self.evidence.inherited)
        return inherited or Gap(GapReason.NOT_PERMITTED, self.evidence.why)

    def _conf(self, matcher: FlagMatcher) -> Answer:
        own = self.evidence.environment or self.evidence.inherited
        values = {k: v for k, v in self.evidence.conf.values.items() if k not in own}
        return _of_values(matcher, values) or (not self.evidence.conf.whole and CONF_UNREAD)

    def _configured(self, matcher: FlagMatcher) -> Answer:
        values = self.evidence.deepspeed
        return JSON_UNREAD if values is None else _of_values(matcher, values)

    def _argued(self, matcher: FlagMatcher) -> Answer:
        if is_in(matcher, self.evidence.arguments):
            return True
        # A process that overwrote its environment put a title over the command line before it.
        return self.evidence.wiped and Gap(GapReason.NOT_PERMITTED, self.evidence.why)

    def _ancestors(self, matcher: FlagMatcher) -> Answer:
        return any(is_in(matcher, arguments) for arguments in self.evidence.lineage)

    def _mapped(self, matcher: FlagMatcher) -> Answer:
        libraries = self.evidence.libraries
        if libraries is None:
            return MAPS_UNREAD
        return any(name in libraries for name in matcher.names)

    def _device(self, matcher: FlagMatcher) -> Answer:
        if not self.architecture:
            return Gap(GapReason.NOT_READY, "architecture of the device not known")
        return _of_values(matcher, {"architecture": self.architecture})


def _of_values(matcher: FlagMatcher, values: Mapping[str, str]) -> bool:
    return any(name in values and passes(matcher, values[name]) for name in matcher.names)
