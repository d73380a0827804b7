"""What was told lately, kept for `otel-ofu explain`.

Enters: diagnoses. Leaves: a file of JSON lines under the state folder, bounded; and one of them by
its id.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import msgspec

from otel_ofu.model import Diagnosis

log = logging.getLogger(__name__)

MAX_BYTES = 4 * 2**20
NAME = "diagnoses.jsonl"


class DiagnosisLog:
    """One file; `folder` None keeps nothing. A disk that takes nothing is said once."""

    def __init__(self, folder: Path | None) -> None:
        self._path = folder / NAME if folder else None
        self._failed = False

    def add(self, diagnosis: Diagnosis) -> None:
        if self._path is None:
            return
        try:
            if self._path.exists() and self._path.stat().st_size > MAX_BYTES:
                self._path.replace(self._path.with_suffix(".old.jsonl"))
            with self._path.open("ab") as stream:
                stream.write(msgspec.json.encode(diagnosis) + b"\n")
        except OSError as error:
            if not self._failed:
                self._failed = True
                log.warning("%s: %s; `otel-ofu explain` will not know", self._path, error.strerror)


def told(folder: Path) -> Iterator[Diagnosis]:
    """What the files hold, oldest first; a line that was cut off is left out."""
    for path in ((folder / NAME).with_suffix(".old.jsonl"), folder / NAME):
        if not path.exists():
            continue
        for line in path.read_bytes().splitlines():
            try:
                yield msgspec.json.decode(line, type=Diagnosis)
            except (msgspec.DecodeError, msgspec.ValidationError):
                continue
