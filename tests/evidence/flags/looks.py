"""Looks as flags.yaml writes them."""

from __future__ import annotations

import msgspec

from otel_ofu.evidence.flags.rows import Look


def look(**fields: object) -> Look:
    """In the environment, of NAME, unless `fields` say something else."""
    rows = {"where": ["env"], **fields}
    if not {"names", "programs", "words"} & set(rows):
        rows["names"] = ["NAME"]
    return msgspec.convert(rows, Look)
