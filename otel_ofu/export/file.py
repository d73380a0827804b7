"""A file of OTLP JSON lines, as the Collector's `otlpjsonfile` receiver reads it.

Enters: bodies. Leaves: one line each; a full file becomes `NAME.1`, and so on up to the oldest.
Source: OpenTelemetry protocol specification 1.9, JSON Protobuf Encoding: camelCase names, enums as
numbers, 64-bit integers as strings, trace and span ids in hexadecimal.
"""

from __future__ import annotations

import base64
import json
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from otel_ofu.export.request import unpack
from otel_ofu.outbox.batch import Body, Observe

_log = logging.getLogger(__name__)

_IDS = ("traceId", "spanId", "parentSpanId")


@dataclass(frozen=True, slots=True)
class FileOptions:
    """A file that has reached `max_bytes` is moved away; `backups` old ones are kept."""

    path: Path
    max_bytes: int = 100 * 1024 * 1024
    backups: int = 3


class FileExporter:
    """Writes at once, in the thread that calls. ValueError at once if the file cannot be made.

    Later errors, such as a full disk, are counted and logged once; no half line is left behind.
    `sent` and `dropped` count points.
    """

    def __init__(
        self,
        options: FileOptions,
        name: str = "file",
        observe: Observe = lambda _exporter, _outcome, _points: None,
    ) -> None:
        self._options = options
        self._name = name
        self._observe = observe
        self._failing = False
        self.sent = 0
        self.dropped = 0
        try:
            options.path.parent.mkdir(parents=True, exist_ok=True)
            self._file: int | None = _opened(options.path)
        except OSError as error:
            raise ValueError(f"{options.path}: {error.strerror}") from error

    def export(self, bodies: Iterable[Body]) -> None:
        """Appends the bodies; never raises for what a disk may do."""
        for body in bodies:
            try:
                self._append(json_line(body))
            except OSError as error:
                self._lost(body, error)
            else:
                self._kept(body)

    def close(self) -> None:
        """May be called twice."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _append(self, line: bytes) -> None:
        file = self._file if self._file is not None else _opened(self._options.path)
        self._file = file
        size = os.fstat(file).st_size
        if size and size + len(line) > self._options.max_bytes:
            file, size = self._rotated(), 0
        try:
            _write_all(file, line)
        except OSError:
            os.ftruncate(file, size)
            raise

    def _rotated(self) -> int:
        self.close()
        path = self._options.path
        names = [
            path,
            *(path.with_name(f"{path.name}.{i + 1}") for i in range(self._options.backups)),
        ]
        names[-1].unlink(missing_ok=True)
        for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)
        self._file = _opened(path)
        return self._file

    def _kept(self, body: Body) -> None:
        self.sent += body.points
        self._observe(self._name, "sent", body.points)
        if self._failing:
            self._failing = False
            _log.warning("export %s: %s can be written again", self._name, self._options.path)

    def _lost(self, body: Body, error: OSError) -> None:
        self.dropped += body.points
        self._observe(self._name, "dropped", body.points)
        if not self._failing:
            self._failing = True
            _log.warning(
                "export %s: %s: %s; points are dropped meanwhile",
                self._name,
                self._options.path,
                error.strerror,
            )


def _opened(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _write_all(file: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(file, rest) :]


def json_line(body: Body) -> bytes:
    """The request with a newline at its end. ValueError for a body of another kind."""
    tree = MessageToDict(unpack(body), use_integers_for_enums=True)
    _ids_in_hex(tree)
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _ids_in_hex(tree: Any) -> None:  # noqa: ANN401 - JSON
    """Protobuf's own JSON has base64 there; ids occur on records and exemplars only."""
    if isinstance(tree, list):
        for item in tree:
            _ids_in_hex(item)
    elif isinstance(tree, dict):
        for name, value in tree.items():
            if name in _IDS and isinstance(value, str):
                tree[name] = base64.b64decode(value).hex()
            else:
                _ids_in_hex(value)
