"""Log settings -> a `Follower`.

Enters: checked settings. Leaves: the follower.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_ofu.mfu.logs.follower import Followed, Follower
from otel_ofu.mfu.logs.formats import readers_of
from otel_ofu.mfu.logs.paths import PathTemplate
from otel_ofu.mfu.logs.patterns import LinePattern
from otel_ofu.mfu.logs.scanner import Scanner
from otel_ofu.mfu.logs.settings import LogSettings
from otel_ofu.model.clock import Clock


def build_follower(logs: Sequence[LogSettings], clock: Clock) -> Follower:
    """Follows the logs; ValueError or PatternError for settings with mistakes."""
    return Follower([_followed(each) for each in logs], clock)


def _followed(log: LogSettings) -> Followed:
    patterns = [LinePattern(text) for text in log.patterns]
    return Followed(
        scanner=Scanner(readers_of(log.frameworks), patterns),
        files=[PathTemplate(path) for path in log.files],
        command=tuple(log.command),
        job=log.job,
        start=log.start,
    )
