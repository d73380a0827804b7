"""A server at a path of the file system."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import closing
from pathlib import Path

import pytest

from otel_ofu.net.http_server import UnixAddress
from tests.net.serving import read_all, serving
from tests.waiting import HANGS_S

LAST = b"GET /page HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def ask(path: Path) -> bytes:
    with closing(socket.socket(socket.AF_UNIX)) as plain:
        plain.settimeout(HANGS_S)
        plain.connect(str(path))
        plain.sendall(LAST)
        return read_all(plain)


def test_only_its_owner_may_connect_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    before = os.umask(0)
    try:
        with serving(address=UnixAddress(str(path))):
            status = path.lstat()
            assert stat.S_ISSOCK(status.st_mode)
            assert stat.S_IMODE(status.st_mode) == 0o600
            assert ask(path).startswith(b"HTTP/1.1 200 OK")
    finally:
        os.umask(before)
    assert not path.exists()


def test_a_socket_that_nobody_listens_on_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with closing(socket.socket(socket.AF_UNIX)) as stale:
        stale.bind(str(path))
    with serving(address=UnixAddress(str(path))):
        assert ask(path).startswith(b"HTTP/1.1 200 OK")


def test_a_socket_that_is_listened_on_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    with serving(address=UnixAddress(str(path))):
        message = f"cannot listen on unix:{path}: another process listens there; choose another"
        with pytest.raises(ValueError, match=message), serving(address=UnixAddress(str(path))):
            pass
        assert ask(path).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_what_is_no_socket_is_left_alone(tmp_path: Path, kind: str) -> None:
    path, kept = tmp_path / "api.sock", tmp_path / "kept"
    kept.write_text("kept")
    if kind == "file":
        path.write_text("kept")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(kept)
    with (
        pytest.raises(ValueError, match="is not a socket"),
        serving(address=UnixAddress(str(path))),
    ):
        pass
    assert path.exists()
    assert kept.read_text() == "kept"


def test_a_folder_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match=r"No such file or directory; choose another path"),
        serving(address=UnixAddress(str(tmp_path / "none" / "api.sock"))),
    ):
        pass
