"""Files that cannot be used: which are set aside, which are out of reach, and in which words."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from otel_ofu.files.sqlite import FileSchema, is_busy, is_damaged, open_whole, why
from tests.disks import full_disk
from tests.outbox.test_queues import body, numbers, opened

FORM = FileSchema("CREATE TABLE word (text TEXT);", 3, "words")
LOG = logging.getLogger(__name__)


def read(db: sqlite3.Connection) -> list[str]:
    return [text for (text,) in db.execute("SELECT text FROM word")]


def words(path: Path, *more: str) -> tuple[list[str], list[str]]:
    """What was in the file, and what was said; `more` is written."""
    db, found, said = open_whole(path, FORM, read, LOG)
    with closing(db), db:
        db.executemany("INSERT INTO word VALUES (?)", [(text,) for text in more])
    return found, said


def test_what_was_written_is_there_at_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "words.sqlite"
    assert words(path, "one", "two") == ([], [])
    assert words(path) == (["one", "two"], [])


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "words.sqlite"
    path.touch()
    assert words(path, "one") == ([], [])
    assert words(path) == (["one"], [])


def test_a_file_in_use_is_out_of_reach_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "words.sqlite"
    words(path, "one")
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError) as caught:
            words(path)
    assert is_busy(caught.value)
    assert not is_damaged(caught.value)
    assert why(path, caught.value) == "database is locked"
    assert words(path) == (["one"], [])


@pytest.mark.parametrize("inodes", [False, True])
def test_a_full_disk_is_called_so_and_leaves_nothing_that_is_set_aside(
    tmp_path: Path, *, inodes: bool
) -> None:
    with full_disk(tmp_path / "full", inodes=inodes) as full:
        path = full / "words.sqlite"
        with pytest.raises(sqlite3.OperationalError) as caught:
            words(path)
        assert not is_damaged(caught.value)
        assert why(path, caught.value) == "disk full"
        (full / "big").unlink()
        if not inodes:
            (full / "big").write_bytes(b"")
            assert words(path) == ([], [])


def test_a_place_that_is_none_is_named_by_the_system(tmp_path: Path) -> None:
    path = tmp_path / "none" / "words.sqlite"
    with pytest.raises(sqlite3.OperationalError) as caught:
        words(path)
    assert why(path, caught.value) == "No such file or directory"


@pytest.mark.parametrize("inodes", [False, True])
def test_an_outbox_on_a_full_disk_is_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, inodes: bool
) -> None:
    with full_disk(tmp_path / "full", inodes=inodes) as full:
        with opened(full / "outbox.sqlite") as outbox:
            queue = outbox.queues["otlp"]
            queue.put(body(1))
            queue.put(body(2))
            assert numbers(queue) == [1, 2]
        (line,) = caplog.messages
        assert line.startswith(f"outbox {full}/outbox.sqlite: disk full; a bounded part")
