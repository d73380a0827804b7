"""One scan of all processes that hold a GPU.

Enters: who holds which device. Leaves: a `FlagScan`: what flags of processes mean for each device.
What could not be seen is in its report and its gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from otel_ofu.evidence.flags.catalogue import FlagCatalogue, key_of
from otel_ofu.evidence.flags.judge import Answer, FlagEvaluator
from otel_ofu.evidence.flags.process import EvidenceReader, Lineage, ProcessEvidence
from otel_ofu.files.procfs import FOREIGN, REMEDY, AccessDeniedError, ProcFs
from otel_ofu.model import Entity, Gap, GapReason, Observation, Window
from otel_ofu.model.log_once import CountedLogOnce


@dataclass(frozen=True, slots=True)
class FlagReport:
    """How the last scan went; `scanned_at_s` is None before the first.

    `unread`: processes whose environment is not readable, `wiped` those that overwrote theirs.
    `problems`: one line a cause. `counts`: kind -> how often since the start.
    """

    scanned_at_s: float | None = None
    seconds: float = 0.0
    processes: int = 0
    unread: int = 0
    wiped: int = 0
    problems: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Holder(Protocol):
    """A compute process on a device; pids are the host's."""

    @property
    def device_uuid(self) -> str: ...

    @property
    def pid(self) -> int: ...


@dataclass(frozen=True, slots=True)
class DeviceFlags:
    """By registry key: 1 for seen on some process of the device, 0 for not seen on any.

    What could not be read is a gap.
    """

    values: Mapping[str, float]
    gaps: Mapping[str, Gap]


@dataclass(frozen=True, slots=True)
class FlagScan:
    """`ever`: keys that were 1 on some device since the start, for whoever leaves out the rest."""

    devices: Mapping[str, DeviceFlags] = field(default_factory=dict)
    ever: frozenset[str] = frozenset()
    report: FlagReport = field(default_factory=FlagReport)

    def observations(
        self, entities: Mapping[str, Entity], window: Window, *, all_flags: bool = True
    ) -> tuple[Observation, ...]:
        """The flags as metrics of the GPUs whose entities are given, by device UUID.

        `all_flags`: also those that were never seen, as zeros and gaps: for the store; without
        them for export.
        """
        return tuple(self._observed(entities, window, None if all_flags else self.ever))

    def _observed(
        self, entities: Mapping[str, Entity], window: Window, only: frozenset[str] | None
    ) -> Iterator[Observation]:
        for uuid, flags in self.devices.items():
            if uuid in entities:
                values = {k: v for k, v in flags.values.items() if only is None or k in only}
                gaps = {k: g for k, g in flags.gaps.items() if only is None or k in only}
                yield Observation(entities[uuid], window, values, gaps)


Answers = Mapping[str, Answer]

UNSEEN = Gap(GapReason.NOT_PERMITTED, f"processes on the GPU are not readable; {REMEDY}")
HANGS = "a process on a GPU is left out: reading its files in an earlier scan has not returned yet"


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
    """Belongs to one thread; remembers processes, and which flags were ever seen."""

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
        self._ever: frozenset[str] = frozenset()

    def successor(self) -> Scan:
        """For another thread, when this one hangs: what was seen, but what is being read."""
        troubles = self.troubles.successor()
        made = Scan(self._catalogue, self._procfs, troubles, trust_pids=self._trust_pids)
        made._ever = self._ever
        return made

    def run(self, inputs: ScanInputs) -> FlagScan:
        """Never waits for a lock of ours, but /proc may hang."""
        evidence = self._evidence({holder.pid for holder in inputs.holders}, inputs.avoided)
        held = sorted({(holder.device_uuid, holder.pid) for holder in inputs.holders})
        answers: dict[str, list[Answers]] = {}
        for uuid, pid in held:
            seen = evidence.get(pid)
            if seen is not None:
                judged = self._judged((uuid, pid), seen, inputs.architectures.get(uuid, ""))
                answers.setdefault(uuid, []).append(judged)
            elif pid in evidence:
                answers.setdefault(uuid, []).append({})
        self._verdicts = {key: self._verdicts[key] for key in held if key in self._verdicts}
        devices = {uuid: self._device(each) for uuid, each in answers.items()}
        self._ever |= {key for flags in devices.values() for key, on in flags.values.items() if on}
        return FlagScan(devices, self._ever, self._report(inputs.now_s, evidence))

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
            except AccessDeniedError as error:
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
            evaluator = FlagEvaluator(seen, self._catalogue, architecture)
            answers = {flag.id: evaluator.judge(flag) for flag in self._catalogue.watched}
            known = self._verdicts[key] = (seen, architecture, answers)
        return known[2]

    def _device(self, answers: Sequence[Answers]) -> DeviceFlags:
        values: dict[str, float] = {}
        gaps: dict[str, Gap] = {}
        for flag in self._catalogue.watched:
            given = [each.get(flag.id, UNSEEN) for each in answers]
            gap = next((answer for answer in given if isinstance(answer, Gap)), None)
            if any(answer is True for answer in given):
                values[key_of(flag.id)] = 1.0
            elif gap is not None:
                gaps[key_of(flag.id)] = gap
            else:
                values[key_of(flag.id)] = 0.0
        return DeviceFlags(values, gaps)

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
