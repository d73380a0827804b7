"""Reads the sources that are in use, and keeps trying those that could give more.

Enters: the sources in their order, and instants. Leaves: a result of each source in use, in which
no GPU is twice. While nothing is read at all, a line a minute with what was tried.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from otel_ofu.app.source_choice import SourceChange, SourceChoice
from otel_ofu.app.source_reader import Factory, ReadResult, ThreadReader
from otel_ofu.model import Reading
from otel_ofu.model.clock import Clock

log = logging.getLogger(__name__)

FIRST_RETRY_S = 60.0
LONGEST_RETRY_S = 600.0
"""Between two trials of a source that is not in use: the client process of DCGM costs 0.3 s of
processor time, so 0.05 % of a core. Starting values."""
TRIAL_S = 60.0
"""A trial: as long as a client process under a CPU limit of 100m takes to start and to give two
samples, several times over. Starting value."""
TRIAL_WAIT_S = 2.0
"""The longest that a round waits for sources on trial. Starting value."""
WAITING_S = 60.0
"""Between two lines while no GPU is read."""


class OneReader(Protocol):
    """A `ThreadReader`."""

    @property
    def hangs(self) -> bool: ...

    def request(self, now_s: float) -> None: ...

    def result(self, budget_s: float) -> ReadResult: ...

    def events(self) -> Sequence[Reading]: ...

    def close(self, deadline_s: float) -> None: ...


OpenReader = Callable[[str, Factory, Clock], OneReader]


@dataclass(slots=True)
class _Entry:
    """One source: its reader while it is open, and when it is tried (monotonic seconds)."""

    factory: Factory
    reader: OneReader | None = None
    trial_ends_s: float = 0.0
    next_trial_s: float = 0.0
    retry_s: float = FIRST_RETRY_S
    tried: bool = False
    last: ReadResult = field(default_factory=ReadResult)


@dataclass(frozen=True, slots=True)
class SelectorOptions:
    """`sources` that may be used, best first; `first` is the one that is expected to work.

    `local`: as for `SourceChoice`; empty means all.
    """

    sources: Mapping[str, Factory]
    first: str = ""
    local: tuple[str, ...] = ()


class SourceSelector:
    """A `SourceReader` over all sources that may be used. Belongs to one thread.

    While none is in use, all are read, and each reports why it gives nothing.
    """

    def __init__(
        self, options: SelectorOptions, clock: Clock, open_reader: OpenReader = ThreadReader
    ) -> None:
        self._entries = {name: _Entry(factory) for name, factory in options.sources.items()}
        self._local = options.local or tuple(options.sources)
        self._choice = SourceChoice(tuple(options.sources), self._local)
        self._expected = {options.first} - {""}
        self._clock = clock
        self._open_reader = open_reader
        self._waiting_line_s = clock.monotonic_s() + WAITING_S

    def read(self, now_s: float, budget_s: float) -> Sequence[ReadResult]:
        used = self._choice.in_use() or self._expected
        self._open(used)
        results = self._results(now_s, budget_s, used)
        self._log(self._choice.update(results))
        self._expected = set()
        used = self._choice.in_use()
        if used:
            self._close_unused(used)
            self._waiting_line_s = self._clock.monotonic_s() + WAITING_S
        else:
            self._log_waiting(results)
        return [self._own(n, result) for n, result in results.items() if not used or n in used]

    def events(self) -> list[Reading]:
        """What happened since the last call, of each GPU through its source. From any thread."""
        readers = [(name, entry.reader) for name, entry in self._entries.items()]
        return [
            reading
            for name, reader in readers
            for reading in (reader.events() if reader else ())
            if self._choice.source_of(reading.device) == name
        ]

    def close(self, deadline_s: float) -> None:
        end_s = self._clock.monotonic_s() + deadline_s
        for entry in self._entries.values():
            if entry.reader is not None:
                entry.reader.close(max(0.0, end_s - self._clock.monotonic_s()))

    def _open(self, used: set[str]) -> None:
        now_s = self._clock.monotonic_s()
        for name, entry in self._entries.items():
            if not used or name in used:
                entry.trial_ends_s = now_s + TRIAL_S
                self._start(name, entry)
            elif self._on_trial(name, entry, now_s):
                self._start(name, entry)

    def _on_trial(self, name: str, entry: _Entry, now_s: float) -> bool:
        if now_s < entry.trial_ends_s:
            return True
        wanted = self._choice.could_improve(name) or (not entry.tried and name in self._local)
        if now_s < entry.next_trial_s or not wanted:
            return False
        entry.trial_ends_s = now_s + TRIAL_S
        entry.next_trial_s = now_s + TRIAL_S + entry.retry_s
        entry.retry_s = min(2 * entry.retry_s, LONGEST_RETRY_S)
        return True

    def _start(self, name: str, entry: _Entry) -> None:
        entry.tried = True
        if entry.reader is None:
            entry.reader = self._open_reader(name, entry.factory, self._clock)

    def _results(self, now_s: float, budget_s: float, used: set[str]) -> dict[str, ReadResult]:
        """All at once; those in use have the whole budget, the others a little of what is left."""
        end_s = self._clock.monotonic_s() + budget_s
        trial_end_s = end_s if not used else self._clock.monotonic_s() + TRIAL_WAIT_S
        readers = list(self._to_read(used))
        for _, _, reader in readers:
            reader.request(now_s)
        results: dict[str, ReadResult] = {}
        for name, entry, reader in sorted(readers, key=lambda each: each[0] not in used):
            limit_s = end_s if name in used else min(end_s, trial_end_s)
            entry.last = reader.result(max(0.0, limit_s - self._clock.monotonic_s()))
            results[name] = entry.last
        return {name: results[name] for name in self._entries if name in results}

    def _to_read(self, used: set[str]) -> Iterator[tuple[str, _Entry, OneReader]]:
        now_s = self._clock.monotonic_s()
        for name, entry in self._entries.items():
            if entry.reader is not None and (name in used or now_s < entry.trial_ends_s):
                yield name, entry, entry.reader

    def _close_unused(self, used: set[str]) -> None:
        """A reader that hangs is kept for the next trial: a second thread would hang as well."""
        now_s = self._clock.monotonic_s()
        for name, entry in self._entries.items():
            if name in used or entry.reader is None:
                continue
            answered = not entry.last.failure and not self._choice.could_improve(name)
            if answered or entry.last.failure == "unavailable":
                entry.trial_ends_s = now_s
            if now_s >= entry.trial_ends_s and not entry.reader.hangs:
                entry.reader.close(0.0)
                entry.reader = None

    def _own(self, name: str, result: ReadResult) -> ReadResult:
        mine = [r for r in result.readings if self._choice.source_of(r.device) == name]
        return replace(result, readings=mine)

    def _log(self, changes: Sequence[SourceChange]) -> None:
        """One line for all GPUs that go the same way."""
        gpus: dict[tuple[str, str], list[SourceChange]] = {}
        for change in changes:
            gpus.setdefault((change.before, change.source), []).append(change)
        for (before, source), moved in gpus.items():
            self._entries[source].retry_s = FIRST_RETRY_S
            names = ", ".join(change.gpu for change in moved)
            if before:
                why = f": {moved[0].why}" if moved[0].why else ""
                log.warning("%s: read by %s instead of %s%s", names, source, before, why)
            else:
                log.info("%s: read by %s", names, source)

    def _log_waiting(self, results: Mapping[str, ReadResult]) -> None:
        now_s = self._clock.monotonic_s()
        if results and now_s >= self._waiting_line_s:
            self._waiting_line_s = now_s + WAITING_S
            tried = "; ".join(f"{n}: {r.message or 'no GPU'}" for n, r in results.items())
            log.warning("no GPU is read, waiting: %s", tried)
