"""Whether rule files changed: asked between rounds."""

from __future__ import annotations

import os
from pathlib import Path

from otel_ofu.rules.files.load import FileWatch


def test_a_change_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("one")
    watch = FileWatch([tmp_path])
    assert not watch.changed()
    file.write_text("other")
    assert [watch.changed(), watch.changed()] == [True, False]
    before = file.stat()
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert watch.changed()


def test_new_replaced_and_removed_files_are_changes(tmp_path: Path) -> None:
    watch = FileWatch([tmp_path, tmp_path / "not-there.yaml"])
    (tmp_path / "b.yaml").write_text("x")
    assert watch.changed()
    (tmp_path / "new").write_text("y")
    assert not watch.changed()
    (tmp_path / "new").replace(tmp_path / "b.yaml")
    assert watch.changed()
    other, old = tmp_path / "new", (tmp_path / "b.yaml").stat()
    other.write_text("z")
    os.utime(other, ns=(old.st_atime_ns, old.st_mtime_ns))
    other.replace(tmp_path / "b.yaml")
    assert watch.changed()
    (tmp_path / "b.yaml").unlink()
    assert watch.changed()
    (tmp_path / "not-there.yaml").write_text("z")
    assert watch.changed()
