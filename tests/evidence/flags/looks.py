"""Looks as flags.yaml writes them."""

from __future__ import annotations

import msgspec

from otel_ofu.evidence.flags.catalogue import FlagMatcher


def look(**fields: object) -> FlagMatcher:
    """In the environment, of NAME, unless `fields` say something else."""
    rows = {"where": ["env"], **fields}
    if not {"names", "programs", "words"} & set(rows):
        rows["names"] = ["NAME"]
    return msgspec.convert(rows, FlagMatcher)
