"""A source that reads devices from a JSON file: `[{"uuid": "GPU-1", "tensor_active": 0.4}]`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from otel_ofu.model import Device, Gap, GapReason, Reading, Window
from otel_ofu.model.clock import Clock
from otel_ofu.model.errors import SourceError

KEYS = ("tensor_active", "sm_clock")


class FileSource:
    name = "json_file"

    def __init__(self, path: Path, interval_s: float) -> None:
        self._path = path
        self._interval_s = interval_s

    def read(self, now_s: float) -> Sequence[Reading]:
        try:
            rows = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise SourceError(f"{self._path}: {error}") from error
        window = Window(now_s - self._interval_s, now_s)
        return [self._reading(row, window) for row in rows]

    def close(self) -> None: ...

    def _reading(self, row: Mapping[str, object], window: Window) -> Reading:
        values = {key: float(str(row[key])) for key in KEYS if key in row}
        missing = Gap(GapReason.NOT_SUPPORTED, "not in the file")
        gaps = {key: missing for key in KEYS if key not in row}
        return Reading(Device(str(row["uuid"])), window, self.name, values, gaps)


def build(settings: Mapping[str, object], *, interval_s: float, clock: Clock) -> FileSource:
    unknown = settings.keys() - {"path"}
    if unknown or not isinstance(settings.get("path"), str):
        raise ValueError("allowed: path, the JSON file to read")
    return FileSource(Path(str(settings["path"])), interval_s)
