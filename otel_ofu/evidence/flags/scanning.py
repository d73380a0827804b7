"""One scan of all processes that hold a GPU.

Enters: who holds which device. Leaves: a `FlagScan`. What could not be seen is in its report and
its gaps.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.evidence.flags.catalogue import FlagCatalogue, key_of
from otel_ofu.evidence.flags.judge import Answer, FlagEvaluator, FlagMatch
from otel_ofu.evidence.flags.process import REMEDY, EvidenceReader, Lineage, ProcessEvidence
from otel_ofu.evidence.flags.state import (
    DeviceFlags,
    FlagReport,
    FlagScan,
    FlagSource,
    FlagState,
    Holder,
)
from otel_ofu.files.procfs import Denied, ProcFs
from otel_ofu.model import Gap, GapReason
from otel_ofu.model.log_once import CountedLogOnce

Answers = Mapping[str, Answer]
_FlagKey = tuple[int, int, str, str]
"""Process id, its start, device, flag."""

UNSEEN = Gap(GapReason.NOT_PERMITTED, f"processes on the GPU are not readable; {REMEDY}")
FOREIGN = (
    "the agent runs in a PID namespace of its own, so the driver's process ids cannot be "
    "resolved; give it the host's (hostPID: true, or --pid=host)"
)

HANGS = "a process on a GPU is left out: reading its files in an earlier scan has not returned yet"

_CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
_FROM_THE_START = frozenset(set(FlagSource) - {FlagSource.LIBRARY, FlagSource.STATUS})


@dataclass(frozen=True, slots=True)
class ScanInputs:
    """What a scan gets: the instant, who holds what, the architecture of each device.

    `avoided`: a process at which another scan hangs.
    """

    now_s: float
    holders: Sequence[Holder]
    architectures: Mapping[str, str]
    avoided: int | None = None


class Scan:
    """Belongs to one thread; remembers processes, and when flags were first seen."""

    def __init__(
        self,
        catalogue: FlagCatalogue,
        procfs: ProcFs,
        troubles: CountedLogOnce,
        *,
        trust_pids: bool = False,
    ) -> None:
        self._catalogue = catalogue
        self._procfs = procfs
        self.troubles = troubles
        self.at: int | None = None
        """The process that is being read, for whoever finds that the scan hangs."""
        self._trust_pids = trust_pids
        self._reader = EvidenceReader(procfs, catalogue, troubles)
        self._verdicts: dict[tuple[str, int], tuple[ProcessEvidence, str, Answers]] = {}
        self._since: dict[_FlagKey, float] = {}
        self._before: dict[tuple[str, str], FlagState] = {}
        self._ever: frozenset[str] = frozenset()

    def successor(self) -> Scan:
        """For another thread, when this one hangs: what was seen, but what is being read."""
        troubles = self.troubles.successor()
        made = Scan(self._catalogue, self._procfs, troubles, trust_pids=self._trust_pids)
        made._since, made._before, made._ever = dict(self._since), self._before, self._ever
        return made

    def run(self, inputs: ScanInputs) -> FlagScan:
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

    def _evidence(self, pids: set[int], avoided: int | None) -> dict[int, ProcessEvidence | None]:
        """None for a process that is there and not readable."""
        if pids and not (self._trust_pids or self._procfs.is_hosts()):
            self.troubles.note("pid_namespace", FOREIGN)
            return dict.fromkeys(pids)
        lineage = Lineage(self._procfs, self._catalogue.variables)
        found: dict[int, ProcessEvidence | None] = {}
        for pid in sorted(pids):
            if pid == avoided:
                self.troubles.note("process_hangs", HANGS)
                found[pid] = None
                continue
            self.at = pid
            try:
                seen = self._reader.read(pid, lineage)
            except Denied as error:
                text = f"processes on a GPU are not readable ({error}); {REMEDY}"
                self.troubles.note("process_not_readable", text)
                found[pid] = None
            else:
                if seen is not None:
                    found[pid] = seen
                elif self._procfs.hides_processes():
                    text = f"processes are hidden (/proc is mounted with hidepid); {REMEDY}"
                    self.troubles.note("process_hidden", text)
                    found[pid] = None
        self.at = None
        self._reader.forget_others(pids)
        return found

    def _judged(self, key: tuple[str, int], seen: ProcessEvidence, architecture: str) -> Answers:
        """Judged anew only when something of the process changed."""
        known = self._verdicts.get(key)
        if known is None or known[0] is not seen or known[1] != architecture:
            court = FlagEvaluator(seen, self._catalogue, architecture)
            answers = {flag.id: court.judge(flag) for flag in self._catalogue.watched}
            known = self._verdicts[key] = (seen, architecture, answers)
        return known[2]

    def _states(
        self,
        key: tuple[str, int],
        judged: Answers,
        seen: ProcessEvidence,
        times_s: tuple[float, float],
    ) -> Iterator[FlagState]:
        uuid, pid = key
        boot_s, now_s = times_s
        started_s = boot_s + seen.stat.start_ticks / _CLOCK_TICKS
        for flag in self._catalogue.watched:
            answer = judged[flag.id]
            if isinstance(answer, FlagMatch):
                first_s = started_s if answer.source in _FROM_THE_START else now_s
                known = (pid, seen.stat.start_ticks, uuid, flag.id)
                since_s = self._since.setdefault(known, min(first_s, now_s))
                yield FlagState(
                    flag.id, answer.value, pid, uuid, since_s, answer.source, flag.severity
                )

    def _put_together(
        self,
        inputs: ScanInputs,
        states: list[FlagState],
        answers: Mapping[str, Sequence[Answers]],
        evidence: Mapping[int, ProcessEvidence | None],
    ) -> FlagScan:
        states.sort(key=lambda s: (-int(s.severity[1:]), s.name, s.device_uuid, s.pid))
        now: dict[tuple[str, str], FlagState] = {}
        for state in states:
            now.setdefault((state.device_uuid, state.name), state)
        before, self._before = self._before, now
        self._ever |= {key_of(state.name) for state in states}
        self._forget(states, evidence)
        held = {(holder.device_uuid, holder.pid) for holder in inputs.holders}
        self._verdicts = {key: v for key, v in self._verdicts.items() if key in held}
        return FlagScan(
            states=tuple(states),
            devices={uuid: self._device(each) for uuid, each in answers.items() if each},
            appeared=tuple(state for key, state in now.items() if key not in before),
            ended=tuple(state for key, state in before.items() if key not in now),
            ever=self._ever,
            report=self._report(inputs.now_s, evidence),
        )

    def _device(self, answers: Sequence[Answers]) -> DeviceFlags:
        values: dict[str, float] = {}
        gaps: dict[str, Gap] = {}
        for flag in self._catalogue.watched:
            given = [each.get(flag.id, UNSEEN) for each in answers]
            gap = next((answer for answer in given if isinstance(answer, Gap)), None)
            if any(isinstance(answer, FlagMatch) for answer in given):
                values[key_of(flag.id)] = 1.0
            elif gap is not None:
                gaps[key_of(flag.id)] = gap
            else:
                values[key_of(flag.id)] = 0.0
        return DeviceFlags(values, gaps)

    def _forget(
        self, states: Sequence[FlagState], evidence: Mapping[int, ProcessEvidence | None]
    ) -> None:
        """First times of flags that are gone; a flag that comes back is dated anew."""
        there = {(state.pid, state.device_uuid, state.name) for state in states}
        self._since = {
            key: since_s
            for key, since_s in self._since.items()
            if (key[0], key[2], key[3]) in there
            and (seen := evidence.get(key[0])) is not None
            and seen.stat.start_ticks == key[1]
        }

    def _report(self, now_s: float, evidence: Mapping[int, ProcessEvidence | None]) -> FlagReport:
        unread = [e for e in evidence.values() if e is None or e.environment is None]
        return FlagReport(
            scanned_at_s=now_s,
            processes=len(evidence),
            unread=len(unread),
            wiped=sum(1 for e in unread if e is not None and e.wiped),
            problems=self.troubles.problems(),
            counts=self.troubles.counts(),
        )
