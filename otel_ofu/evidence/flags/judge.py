"""Does a flag stand on a process? Yes with what may be told, no, or not known.

Enters: a flag, the facts, and the evidence of one process. Leaves: `Seen`, None, or a Gap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from otel_ofu.evidence.flags.arguments import seen_in
from otel_ofu.evidence.flags.book import FlagBook
from otel_ofu.evidence.flags.evidence import Evidence
from otel_ofu.evidence.flags.matching import SET, told
from otel_ofu.evidence.flags.rows import Fact, Flag, Look, Where
from otel_ofu.evidence.flags.state import Source
from otel_ofu.model import Gap, GapReason

MAPS_UNREAD = Gap(GapReason.NOT_PERMITTED, "libraries of the process not readable")
JSON_UNREAD = Gap(GapReason.NOT_PERMITTED, "configuration of DeepSpeed not readable")
CONF_UNREAD = Gap(GapReason.NOT_PERMITTED, "configuration files of NCCL not all readable")


@dataclass(frozen=True, slots=True)
class Seen:
    """A flag, and what may be told of its value."""

    value: str
    source: Source


Answer = Seen | Gap | None


@dataclass(frozen=True, slots=True)
class Court:
    """Of one process on one device. `architecture` is "" where it is not known."""

    evidence: Evidence
    book: FlagBook
    architecture: str = ""
    _facts: dict[str, bool | None] = field(default_factory=dict)

    def judge(self, flag: Flag) -> Answer:
        """Facts that are not known neither make nor excuse a flag."""
        answer = self._first(flag.look)
        if isinstance(answer, Seen) and self._is_excused(flag):
            return None
        return answer

    def _is_excused(self, flag: Flag) -> bool:
        lacking = any(self._holds(name) is False for name in flag.requires)
        return lacking or any(self._holds(name) for name in flag.unless)

    def _holds(self, name: str) -> bool | None:
        if name not in self._facts:
            fact = next(fact for fact in self.book.facts if fact.id == name)
            self._facts[name] = self._fact(fact)
        return self._facts[name]

    def _fact(self, fact: Fact) -> bool | None:
        answer = self._first(fact.look)
        if isinstance(answer, Seen):
            return True
        there = any(self._is_there(look) for look in fact.look)
        return False if there or (fact.absent == "false" and answer is None) else None

    def _is_there(self, look: Look) -> bool:
        """Whether a name of the look has a value at all."""
        if "device" in look.where and self.architecture:
            return True
        environment = self.evidence.environment or self.evidence.inherited
        if "env" in look.where and any(name in environment for name in look.names):
            return True
        present = Look(where=["argv"], names=look.names, contains=[""])
        return "argv" in look.where and bool(look.names) and isinstance(self._argued(present), Seen)

    def _first(self, looks: list[Look]) -> Answer:
        gap: Gap | None = None
        for look in looks:
            for where in look.where:
                answer = self._at(where, look)
                if isinstance(answer, Seen):
                    return answer
                gap = gap or answer
        return gap

    def _at(self, where: Where, look: Look) -> Answer:
        asked: Mapping[Where, Callable[[Look], Answer]] = {
            "env": self._environment,
            "nccl_conf": self._conf,
            "deepspeed": self._configured,
            "argv": self._argued,
            "ancestor": self._ancestors,
            "maps": self._mapped,
            "status": self._status,
            "device": self._device,
        }
        return asked[where](look)

    def _environment(self, look: Look) -> Answer:
        own = self.evidence.environment
        if own is not None:
            return _of_values(look, own, Source.ENVIRONMENT)
        # What is not seen on an ancestor may still be set on the process itself.
        inherited = _of_values(look, self.evidence.inherited, Source.ANCESTOR_ENVIRONMENT)
        return inherited or Gap(GapReason.NOT_PERMITTED, self.evidence.why)

    def _conf(self, look: Look) -> Answer:
        own = self.evidence.environment or self.evidence.inherited
        values = {k: v for k, v in self.evidence.conf.values.items() if k not in own}
        seen = _of_values(look, values, Source.NCCL_CONF)
        return seen or (None if self.evidence.conf.whole else CONF_UNREAD)

    def _configured(self, look: Look) -> Answer:
        if self.evidence.deepspeed is None:
            return JSON_UNREAD
        return _of_values(look, self.evidence.deepspeed, Source.DEEPSPEED_CONF)

    def _argued(self, look: Look) -> Answer:
        said = seen_in(look, self.evidence.arguments)
        if said is not None:
            return Seen(said, Source.COMMAND_LINE)
        # Whoever overwrote the environment put a title over the command line, which lies before it.
        return Gap(GapReason.NOT_PERMITTED, self.evidence.why) if self.evidence.wiped else None

    def _ancestors(self, look: Look) -> Answer:
        for arguments in self.evidence.lineage:
            said = seen_in(look, arguments)
            if said is not None:
                return Seen(said, Source.ANCESTOR_COMMAND_LINE)
        return None

    def _mapped(self, look: Look) -> Answer:
        if self.evidence.libraries is None:
            return MAPS_UNREAD
        found = next((name for name in look.names if name in self.evidence.libraries), None)
        return None if found is None else Seen(found, Source.LIBRARY)

    def _status(self, look: Look) -> Answer:
        seen = _of_values(look, self.evidence.status, Source.STATUS)
        # The number of the debugger's process helps nobody.
        return Seen(SET, Source.STATUS) if seen and "TracerPid" in look.names else seen

    def _device(self, look: Look) -> Answer:
        if not self.architecture:
            return Gap(GapReason.NOT_READY, "architecture of the device not known")
        return _of_values(look, {"architecture": self.architecture}, Source.STATUS)


def _of_values(look: Look, values: Mapping[str, str], source: Source) -> Seen | None:
    for name in look.names:
        if name in values and (said := told(look, values[name])) is not None:
            return Seen(said, source)
    return None
