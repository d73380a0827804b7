"""One look at all processes that hold a GPU.

Enters: who holds which device. Leaves: a `FlagScan`. What could not be seen is in its report and
its gaps.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.evidence.flags.book import FlagBook, key_of
from otel_ofu.evidence.flags.evidence import REMEDY, Evidence, Witness
from otel_ofu.evidence.flags.judge import Answer, Court, Seen
from otel_ofu.evidence.flags.lineage import Lineage
from otel_ofu.evidence.flags.report import FlagReport
from otel_ofu.evidence.flags.state import DeviceFlags, FlagScan, FlagState, Holder, Source
from otel_ofu.files.procfs import Denied, ProcFs
from otel_ofu.model import Gap, GapReason
from otel_ofu.model.log_once import CountedLogOnce

Answers = Mapping[str, Answer]
Place = tuple[int, int, str, str]
"""Process id, its start, device, flag."""

UNSEEN = Gap(GapReason.NOT_PERMITTED, f"processes on the GPU cannot be looked at; {REMEDY}")
FOREIGN = (
    "the agent runs in a PID namespace of its own, so the driver's process ids cannot be looked "
    "up; give it the host's (hostPID: true, or --pid=host)"
)

HANGS = "a process on a GPU is left out: reading its files in an earlier scan has not returned yet"

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_FROM_THE_START = frozenset(set(Source) - {Source.LIBRARY, Source.STATUS})


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a scan was told: the instant, who holds what, the architecture of each device.

    `avoided`: a process at which another scan hangs.
    """

    now_s: float
    holders: Sequence[Holder]
    architectures: Mapping[str, str]
    avoided: int | None = None


class Scan:
    """Belongs to one thread; remembers processes, and when flags were first seen."""

    def __init__(
        self, book: FlagBook, procfs: ProcFs, troubles: CountedLogOnce, *, trust_pids: bool = False
    ) -> None:
        self._book = book
        self._procfs = procfs
        self.troubles = troubles
        self.at: int | None = None
        """The process that is being read, for whoever finds that the scan hangs."""
        self._trust_pids = trust_pids
        self._witness = Witness(procfs, book, troubles)
        self._verdicts: dict[tuple[str, int], tuple[Evidence, str, Answers]] = {}
        self._since: dict[Place, float] = {}
        self._before: dict[tuple[str, str], FlagState] = {}
        self._ever: frozenset[str] = frozenset()

    def successor(self) -> Scan:
        """For another thread, when this one hangs: what was seen, but what is being read."""
        troubles = self.troubles.successor()
        made = Scan(self._book, self._procfs, troubles, trust_pids=self._trust_pids)
        made._since, made._before, made._ever = dict(self._since), self._before, self._ever
        return made

    def run(self, inputs: Inputs) -> FlagScan:
        """Never waits for a lock of ours, but /proc may hang."""
        boot_s = inputs.now_s - (self._procfs.uptime_s() or 0.0)
        evidence = self._evidence({holder.pid for holder in inputs.holders}, inputs.avoided)
        states: list[FlagState] = []
        answers: dict[str, list[Answers]] = {}
        for uuid, pid in sorted({(h.device_uuid, h.pid) for h in inputs.holders}):
            seen = evidence.get(pid)
            if seen is None:
                answers.setdefault(uuid, []).extend([{}] if pid in evidence else [])
                continue
            judged = self._judged((uuid, pid), seen, inputs.architectures.get(uuid, ""))
            answers.setdefault(uuid, []).append(judged)
            states += self._states((uuid, pid), judged, seen, (boot_s, inputs.now_s))
        return self._put_together(inputs, states, answers, evidence)

    def _evidence(self, pids: set[int], avoided: int | None) -> dict[int, Evidence | None]:
        """None for a process that is there and cannot be looked at."""
        if pids and not (self._trust_pids or self._procfs.is_hosts()):
            self.troubles.note("pid_namespace", FOREIGN)
            return dict.fromkeys(pids)
        lineage = Lineage(self._procfs, self._book.variables)
        found: dict[int, Evidence | None] = {}
        for pid in sorted(pids):
            if pid == avoided:
                self.troubles.note("process_hangs", HANGS)
                found[pid] = None
                continue
            self.at = pid
            try:
                seen = self._witness.look(pid, lineage)
            except Denied as error:
                words = f"processes on a GPU cannot be looked at ({error}); {REMEDY}"
                self.troubles.note("process_not_readable", words)
                found[pid] = None
            else:
                if seen is not None:
                    found[pid] = seen
                elif self._procfs.hides_processes():
                    words = f"processes are hidden (/proc is mounted with hidepid); {REMEDY}"
                    self.troubles.note("process_hidden", words)
                    found[pid] = None
        self.at = None
        self._witness.forget_others(pids)
        return found

    def _judged(self, place: tuple[str, int], seen: Evidence, architecture: str) -> Answers:
        """Judged anew only when something of the process changed."""
        known = self._verdicts.get(place)
        if known is None or known[0] is not seen or known[1] != architecture:
            court = Court(seen, self._book, architecture)
            answers = {flag.id: court.judge(flag) for flag in self._book.watched}
            known = self._verdicts[place] = (seen, architecture, answers)
        return known[2]

    def _states(
        self,
        place: tuple[str, int],
        judged: Answers,
        seen: Evidence,
        times_s: tuple[float, float],
    ) -> Iterator[FlagState]:
        uuid, pid = place
        boot_s, now_s = times_s
        started_s = boot_s + seen.stat.start_ticks / _CLOCK_TICKS
        for flag in self._book.watched:
            answer = judged[flag.id]
            if isinstance(answer, Seen):
                first_s = started_s if answer.source in _FROM_THE_START else now_s
                known = (pid, seen.stat.start_ticks, uuid, flag.id)
                since_s = self._since.setdefault(known, min(first_s, now_s))
                yield FlagState(
                    flag.id, answer.value, pid, uuid, since_s, answer.source, flag.severity
                )

    def _put_together(
        self,
        inputs: Inputs,
        states: list[FlagState],
        answers: Mapping[str, Sequence[Answers]],
        evidence: Mapping[int, Evidence | None],
    ) -> FlagScan:
        states.sort(key=lambda s: (-int(s.severity[1:]), s.name, s.device_uuid, s.pid))
        now: dict[tuple[str, str], FlagState] = {}
        for state in states:
            now.setdefault((state.device_uuid, state.name), state)
        before, self._before = self._before, now
        self._ever |= {key_of(state.name) for state in states}
        self._forget(states, evidence)
        held = {(holder.device_uuid, holder.pid) for holder in inputs.holders}
        self._verdicts = {place: v for place, v in self._verdicts.items() if place in held}
        return FlagScan(
            states=tuple(states),
            devices={uuid: self._device(each) for uuid, each in answers.items() if each},
            appeared=tuple(state for place, state in now.items() if place not in before),
            ended=tuple(state for place, state in before.items() if place not in now),
            ever=self._ever,
            report=self._report(inputs.now_s, evidence),
        )

    def _device(self, answers: Sequence[Answers]) -> DeviceFlags:
        values: dict[str, float] = {}
        gaps: dict[str, Gap] = {}
        for flag in self._book.watched:
            given = [each.get(flag.id, UNSEEN) for each in answers]
            gap = next((answer for answer in given if isinstance(answer, Gap)), None)
            if any(isinstance(answer, Seen) for answer in given):
                values[key_of(flag.id)] = 1.0
            elif gap is not None:
                gaps[key_of(flag.id)] = gap
            else:
                values[key_of(flag.id)] = 0.0
        return DeviceFlags(values, gaps)

    def _forget(self, states: Sequence[FlagState], evidence: Mapping[int, Evidence | None]) -> None:
        """First times of flags that are gone; a flag that comes back is dated anew."""
        there = {(state.pid, state.device_uuid, state.name) for state in states}
        self._since = {
            place: since_s
            for place, since_s in self._since.items()
            if (place[0], place[2], place[3]) in there
            and (seen := evidence.get(place[0])) is not None
            and seen.stat.start_ticks == place[1]
        }

    def _report(self, now_s: float, evidence: Mapping[int, Evidence | None]) -> FlagReport:
        unread = [e for e in evidence.values() if e is None or e.environment is None]
        return FlagReport(
            scanned_at_s=now_s,
            processes=len(evidence),
            unread=len(unread),
            wiped=sum(1 for e in unread if e is not None and e.wiped),
            problems=self.troubles.problems(),
            counts=self.troubles.counts(),
        )
