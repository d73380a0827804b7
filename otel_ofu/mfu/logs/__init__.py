"""What jobs log of their own speed: files and commands in, `JobReport`s out."""

from otel_ofu.mfu.logs.follower import FollowCounts, Followed, Follower, build_follower
from otel_ofu.mfu.logs.formats import LinePattern, PatternError, built_in_readers, readers_of
from otel_ofu.mfu.logs.paths import PathTemplate
from otel_ofu.mfu.logs.scanner import Scanner
from otel_ofu.mfu.logs.settings import LogSettings

__all__ = [
    "FollowCounts",
    "Followed",
    "Follower",
    "LinePattern",
    "LogSettings",
    "PathTemplate",
    "PatternError",
    "Scanner",
    "build_follower",
    "built_in_readers",
    "readers_of",
]
