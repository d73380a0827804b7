"""The findings that were reported lately, kept for `otel-ofu explain`.

Enters: findings. Leaves: a file of JSON lines under the state folder, bounded, and what it holds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec

from otel_ofu.model import Finding

log = logging.getLogger(__name__)

MAX_BYTES = 4 * 2**20
"""Some 1,000 to 4,000 findings; two such files are kept. Starting value."""
NAME = "diagnoses.jsonl"


class FindingLog:
    """One file; `folder` None keeps nothing. A disk that takes no write is logged once."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / NAME if folder else None
        self._failed = False

    def add(self, finding: Finding) -> None:
        if self._path is None:
            return
        try:
            if self._path.exists() and self._path.stat().st_size > MAX_BYTES:
                self._path.replace(self._path.with_suffix(".old.jsonl"))
            with self._path.open("ab") as stream:
                stream.write(msgspec.json.encode(finding) + b"\n")
        except OSError as error:
            if not self._failed:
                self._failed = True
                log.warning(
                    "%s: %s; `otel-ofu explain` cannot show this finding",
                    self._path,
                    error.strerror,
                )


def reported(folder: Path) -> Iterator[Finding]:
    """What the files hold, oldest first; a line that was cut off is left out."""
    for path in ((folder / NAME).with_suffix(".old.jsonl"), folder / NAME):
        if not path.exists():
            continue
        for line in path.read_bytes().splitlines():
            try:
                yield msgspec.json.decode(line, type=Finding)
            except (msgspec.DecodeError, msgspec.ValidationError):
                continue
