"""Whether rule files changed since they were looked at last; asked, not told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from otel_ofu.rules.files.load import rule_paths

_Mark = tuple[int, int, int]


class FileWatch:
    """Files, and the rule files of folders; new and removed files count as changes."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self._paths = tuple(paths)
        self._marks = self._look()

    def changed(self) -> bool:
        """True once after every change."""
        before, self._marks = self._marks, self._look()
        return self._marks != before

    def _look(self) -> Mapping[Path, _Mark | None]:
        try:
            return {path: _mark(path) for path in rule_paths(self._paths)}
        except OSError:  # a folder that cannot be listed now: the load says why
            return {}


def _mark(path: Path) -> _Mark | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
