"""A small table over restarts: what is saved by key is loaded, and no disk stops the program."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from otel_ofu.files.sqlite import Change, FileSchema, Rows, SqliteTables, Table

LOG = logging.getLogger(__name__)
FORM = FileSchema(
    """
    CREATE TABLE word (text TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE pair (a TEXT, b TEXT, raw BLOB NOT NULL, PRIMARY KEY (a, b)) WITHOUT ROWID;
    """,
    version=3,
    content="words",
)
WORDS = Table("word", ("text",), tuple[str, int])
PAIRS = Table("pair", ("a", "b"), tuple[str, str, bytes])

Loaded = tuple[dict[str, int], dict[tuple[str, str], bytes]]


def load(rows: Rows) -> Loaded:
    return dict(rows(WORDS)), {(a, b): raw for a, b, raw in rows(PAIRS)}


@contextmanager
def opened(path: Path | None) -> Iterator[SqliteTables[Loaded]]:
    with closing(SqliteTables(path, FORM, load, LOG)) as tables:
        yield tables


def loaded(path: Path | None) -> Loaded:
    with opened(path) as tables:
        return tables.loaded


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "words.sqlite"


def test_rows_are_saved_and_removed_by_their_keys(path: Path) -> None:
    with opened(path) as tables:
        assert tables.loaded == ({}, {})
        pairs = [("a", "b", b"\xff"), ("a", "c", b"2")]
        assert tables.save(Change(WORDS, [("one", 1), ("two", 2)]), Change(PAIRS, pairs))
        assert tables.save(Change(WORDS, [("two", 3)], [("one",)]), Change(PAIRS, (), [("a", "c")]))
    assert loaded(path) == ({"two": 3}, {("a", "b"): b"\xff"})


def test_a_replacement_removes_what_it_does_not_have(path: Path) -> None:
    with opened(path) as tables:
        tables.write(Change(WORDS, [("one", 1)]), Change(PAIRS, [("a", "b", b"")]))
        tables.replace(Change(WORDS, [("two", 2)]))
    assert loaded(path) == ({"two": 2}, {("a", "b"): b""})


def test_changes_are_written_as_a_whole_or_not_at_all(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(path) as tables:
        assert not tables.save(Change(WORDS, [("one", 1)]), Change(PAIRS, [("a", "b", None)]))
    assert loaded(path) == ({}, {})
    assert "words are kept in memory until it can be written" in caplog.text


def test_without_a_path_nothing_is_kept() -> None:
    with opened(None) as tables:
        assert tables.save(Change(WORDS, [("one", 1)]))
        assert tables.loaded == ({}, {})


@pytest.mark.parametrize(
    "damage", ["UPDATE word SET count='x'", "UPDATE word SET text=x'ff'", "DROP TABLE pair"]
)
def test_one_damaged_row_sets_the_file_aside_with_one_message(
    path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    with opened(path) as tables:
        tables.write(Change(WORDS, [("one", 1)]))
    with closing(sqlite3.connect(path)) as other, other:
        other.execute(damage)
    with opened(path) as tables:
        assert tables.loaded == ({}, {})
        assert caplog.messages == tables.messages
        assert "set aside as words.unusable, words start empty" in tables.messages[0]
        tables.write(Change(WORDS, [("two", 2)]))
    assert loaded(path) == ({"two": 2}, {})


def test_a_file_that_cannot_be_opened_has_one_message_and_nothing_is_kept(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path.mkdir()
    with opened(path) as tables:
        assert tables.save(Change(WORDS, [("one", 1)]))
        assert tables.messages == [
            f"{path}: a folder is in its place; words do not survive a restart"
        ]
        assert not tables.in_use
    assert caplog.messages == tables.messages
    assert path.is_dir()


def test_a_file_of_another_process_is_left_alone(path: Path) -> None:
    with opened(path) as tables:
        tables.write(Change(WORDS, [("one", 1)]))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with opened(path) as tables:
            assert tables.in_use
    assert loaded(path) == ({"one": 1}, {})


def test_a_disk_that_takes_nothing_is_logged_once_and_written_later(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(path) as tables:
        assert tables._db is not None
        tables._db.execute("PRAGMA query_only = 1")
        assert not tables.save(Change(WORDS, [("one", 1)]))
        assert not tables.save(Change(WORDS, [("one", 1)]))
        tables._db.execute("PRAGMA query_only = 0")
        assert tables.save(Change(WORDS, [("one", 1)]))
    assert [message.partition(": ")[2] for message in caplog.messages] == [
        "attempt to write a readonly database; words are kept in memory until it can be written",
        "writing works again",
    ]
    assert loaded(path) == ({"one": 1}, {})
