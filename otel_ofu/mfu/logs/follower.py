"""All the logs of a configuration -> reports, at each poll.

Enters: what to follow, and instants. Leaves: reports in the order of their lines, what is wrong
now for each source, and counts. One poll does a bounded amount of work and does not block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from otel_ofu.mfu.logs.blocks import LineBlocks
from otel_ofu.mfu.logs.command import CommandTail
from otel_ofu.mfu.logs.formats import readers_of
from otel_ofu.mfu.logs.patterns import LinePattern
from otel_ofu.mfu.logs.scanner import LineOrigin, Scanner
from otel_ofu.mfu.logs.tail import (
    MAX_FILES,
    FileTail,
    Identity,
    PathTemplate,
    Start,
    TailCounts,
    TailPosition,
)
from otel_ofu.mfu.report import JobReport
from otel_ofu.model.clock import Clock

if TYPE_CHECKING:  # the settings import this package for its checks
    from otel_ofu.mfu.settings import LogSettings

BUDGET_BYTES = 8 * 1024 * 1024  # starting value: of a file in one poll
RESCAN_S = 10.0  # starting value: for files that come


@dataclass(frozen=True, slots=True)
class FollowedLog:
    """One entry of the configuration: files or a command, and how to read them.

    `job` names the job where the path does not; it is empty when the job is found otherwise.
    """

    scanner: Scanner
    files: Sequence[PathTemplate] = ()
    command: Sequence[str] = ()
    job: str = ""
    start: Start = "end"


@dataclass
class _Stream:
    """One open source with its unfinished line."""

    origin: LineOrigin
    scanner: Scanner
    tail: FileTail | CommandTail
    kept: bool
    blocks: LineBlocks = field(default_factory=LineBlocks)


@dataclass(frozen=True, slots=True)
class FollowCounts:
    """Totals since the start, over all sources."""

    bytes: int = 0
    reports: int = 0
    long_lines: int = 0
    rotations: int = 0
    truncations: int = 0
    skipped_bytes: int = 0
    sources: int = 0

    def plus(self, stream: _Stream) -> FollowCounts:
        tail = stream.tail
        counts = tail.counts if isinstance(tail, FileTail) else TailCounts()
        return replace(
            self,
            long_lines=self.long_lines + stream.blocks.long_lines,
            rotations=self.rotations + counts.rotations,
            truncations=self.truncations + counts.truncations,
            skipped_bytes=self.skipped_bytes + counts.skipped_bytes,
        )


class Follower:
    """Follows everything; `poll` from one thread only, `close` when done."""

    def __init__(self, followed: Sequence[FollowedLog], clock: Clock) -> None:
        self._followed = tuple(followed)
        self._clock = clock
        self._streams: dict[str, _Stream] = {}
        self._next_scan_s = float("-inf")
        self._first_scan = True
        self._too_many = ""
        self._bytes = 0
        self._reports = 0
        self._ended = FollowCounts()
        self._owners: dict[Identity, str] = {}
        self._left: dict[Identity, TailPosition] = {}
        for entry in self._followed:
            if entry.command:
                self._add_command(entry)

    def poll(self, now_s: float) -> list[JobReport]:
        """The reports of all lines that were added since the last poll. `now_s` is Unix time."""
        self._rescan()
        found: list[JobReport] = []
        for key, stream in list(self._streams.items()):
            found += self._poll_stream(key, stream, now_s)
            if self._has_left(stream):
                found += self._poll_stream(key, stream, now_s)
            self._forget_if_gone(key, stream)
        self._reports += len(found)
        return found

    def problems(self) -> Mapping[str, str]:
        """What is wrong now, by source; empty when all is well."""
        found = {s.origin.source: s.tail.problem for s in self._streams.values() if s.tail.problem}
        return found | ({"logs": self._too_many} if self._too_many else {})

    @property
    def counts(self) -> FollowCounts:
        total = self._ended
        for stream in self._streams.values():
            total = total.plus(stream)
        return replace(total, bytes=self._bytes, reports=self._reports, sources=len(self._streams))

    def close(self) -> None:
        """Closes files and stops commands; may be called twice."""
        for stream in self._streams.values():
            stream.tail.close()
        self._streams.clear()

    def _add_command(self, entry: FollowedLog) -> None:
        source = f"command: {' '.join(entry.command)}"
        tail = CommandTail(entry.command, self._clock)
        stream = _Stream(LineOrigin(source, entry.job), entry.scanner, tail, kept=True)
        self._streams[source] = stream

    def _rescan(self) -> None:
        if self._clock.monotonic_s() < self._next_scan_s:
            return
        self._next_scan_s = self._clock.monotonic_s() + RESCAN_S
        self._too_many = ""
        for entry, template, path, job in self._paths():
            if path in self._streams:
                continue
            if len(self._streams) >= MAX_FILES:
                self._too_many = f"more than {MAX_FILES} files; the rest is not followed"
                break
            start: Start = entry.start if self._first_scan else "beginning"
            origin = LineOrigin(path, job or entry.job)
            self._streams[path] = _Stream(
                origin, entry.scanner, FileTail(path, start), kept=template.is_plain
            )
        self._first_scan = False

    def _paths(self) -> Iterator[tuple[FollowedLog, PathTemplate, str, str]]:
        for entry in self._followed:
            for template in entry.files:
                for path, job in template.found():
                    yield entry, template, path, job

    def _is_twin(self, key: str, stream: _Stream) -> bool:
        """Whether another path leads to the same file: its lines count once."""
        tail = stream.tail
        if isinstance(tail, CommandTail) or not tail.open() or tail.identity is None:
            return False
        owner = self._streams.get(self._owners.get(tail.identity, ""))
        if owner is not None and owner is not stream and _identity(owner) == tail.identity:
            tail.skip()
            stream.blocks.restart()
            return True
        if self._owners.get(tail.identity) != key:
            self._owners[tail.identity] = key
            if tail.identity in self._left:
                tail.resume(self._left.pop(tail.identity))
        return False

    def _poll_stream(self, key: str, stream: _Stream, now_s: float) -> list[JobReport]:
        return [] if self._is_twin(key, stream) else self._read(stream, now_s)

    def _read(self, stream: _Stream, now_s: float) -> list[JobReport]:
        found: list[JobReport] = []
        for chunk in stream.tail.chunks(BUDGET_BYTES):
            if chunk is None:
                block = stream.blocks.finish()
            else:
                self._bytes += len(chunk)
                block = stream.blocks.feed(chunk)
            if block is not None:
                found += stream.scanner.scan(block, stream.origin, now_s)
            if chunk is None:
                stream.blocks.restart()
        return found

    def _has_left(self, stream: _Stream) -> bool:
        """Whether a file was left for another one just now.

        A glob may find the old one under its new name: how far it was read is kept.
        """
        if not isinstance(stream.tail, FileTail) or stream.tail.left is None:
            return False
        left, stream.tail.left = stream.tail.left, None
        self._owners.pop(left.identity, None)
        if left.exists:
            self._left[left.identity] = left
        while len(self._left) > MAX_FILES:
            del self._left[next(iter(self._left))]
        return True

    def _forget_if_gone(self, key: str, stream: _Stream) -> None:
        """A file that a glob found and that is no more: other files may come, this one not."""
        if isinstance(stream.tail, FileTail) and stream.tail.is_gone and not stream.kept:
            self._ended = self._ended.plus(stream)
            del self._streams[key]


def _identity(stream: _Stream) -> Identity | None:
    return stream.tail.identity if isinstance(stream.tail, FileTail) else None


def build_follower(logs: Sequence[LogSettings], clock: Clock) -> Follower:
    """Follows the logs; ValueError or PatternError for settings with mistakes."""
    return Follower([_followed(each) for each in logs], clock)


def _followed(log: LogSettings) -> FollowedLog:
    patterns = [LinePattern(text) for text in log.patterns]
    return FollowedLog(
        scanner=Scanner(readers_of(log.frameworks), patterns),
        files=[PathTemplate(path) for path in log.files],
        command=tuple(log.command),
        job=log.job,
        start=log.start,
    )
