"""What a configuration says of logs, checked -> a `Follower`.

Enters: plain values. Leaves: the follower, or a `LogSourceError` with every mistake and its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from otel_ofu.mfu.logs.follower import Followed, Follower
from otel_ofu.mfu.logs.formats import readers_of
from otel_ofu.mfu.logs.paths import PathTemplate
from otel_ofu.mfu.logs.patterns import LinePattern, PatternError
from otel_ofu.mfu.logs.scanner import Scanner
from otel_ofu.mfu.logs.tail import Start
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import OtelOfuError

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """Files or a command, one of the two. `frameworks` empty: all that are known.

    `start`: whether what is in a file at the first look is read. `job` names the job where no
    `{job}` in a path does. `patterns` are tried before the built-in formats.
    """

    files: Sequence[str] = ()
    command: Sequence[str] = ()
    job: str = ""
    start: Start = "end"
    frameworks: Sequence[str] = ()
    patterns: Sequence[str] = ()


class LogSourceError(OtelOfuError):
    """All that is wrong in log sources: (steps from the list of them, message in plain words)."""

    def __init__(self, faults: Sequence[tuple[Steps, str]]) -> None:
        super().__init__("\n".join(f"logs{_dotted(steps)}: {text}" for steps, text in faults))
        self.faults = tuple(faults)


def build_follower(sources: Sequence[LogSource], clock: Clock) -> Follower:
    """Follows the sources. Raises LogSourceError with every mistake in them."""
    faults = [
        ((number, *steps), text)
        for number, source in enumerate(sources)
        for steps, text in _faults(source)
    ]
    if faults:
        raise LogSourceError(faults)
    return Follower([_followed(source) for source in sources], clock)


def _faults(source: LogSource) -> Iterator[tuple[Steps, str]]:
    if bool(source.files) == bool(source.command):
        yield (), "allowed: either `files` or `command`"
    for number, path in enumerate(source.files):
        yield from _tried(("files", number), PathTemplate, path)
    for number, pattern in enumerate(source.patterns):
        yield from _tried(("patterns", number), LinePattern, pattern)
    for number, name in enumerate(source.frameworks):
        yield from _tried(("frameworks", number), lambda name: readers_of([name]), name)


def _tried(steps: Steps, make: Callable[[str], object], text: str) -> Iterator[tuple[Steps, str]]:
    try:
        make(text)
    except (ValueError, PatternError) as error:
        yield steps, str(error)


def _followed(source: LogSource) -> Followed:
    patterns = [LinePattern(text) for text in source.patterns]
    return Followed(
        scanner=Scanner(readers_of(source.frameworks), patterns),
        files=[PathTemplate(path) for path in source.files],
        command=tuple(source.command),
        job=source.job,
        start=source.start,
    )


def _dotted(steps: Steps) -> str:
    return "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
