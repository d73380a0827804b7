"""Does a flag stand on a process? Yes with what may be reported, no, or not known.

Enters: a flag, the facts, and the evidence of one process. Leaves: `FlagMatch`, None, or a Gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from otel_ofu.evidence.flags.catalogue import Flag, FlagCatalogue, FlagFact, FlagMatcher, Where
from otel_ofu.evidence.flags.matching import SET, reported_value, seen_in
from otel_ofu.evidence.flags.process import ProcessEvidence
from otel_ofu.evidence.flags.state import FlagSource
from otel_ofu.model import Gap, GapReason

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
