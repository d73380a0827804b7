"""What jobs log of their own speed: files and commands in, `JobReport`s out."""

from otel_ofu.mfu.logs.follower import FollowCounts, FollowedLog, Follower, build_follower
from otel_ofu.mfu.logs.formats import built_in_readers, readers_of
from otel_ofu.mfu.logs.patterns import LinePattern, PatternError
from otel_ofu.mfu.logs.scanner import Scanner
from otel_ofu.mfu.logs.tail import PathTemplate

__all__ = [
    "FollowCounts",
    "FollowedLog",
    "Follower",
    "LinePattern",
    "PathTemplate",
    "PatternError",
    "Scanner",
    "build_follower",
    "built_in_readers",
    "readers_of",
]
