from __future__ import annotations

import os
from pathlib import Path

import pytest

from otel_ofu.evidence.flags.files import read_inside


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "real").write_text("inside")
    (tmp_path / "real").write_text("outside")
    return root


def read(root: Path, path: str) -> bytes | None:
    return read_inside(str(root), path, 100)


def test_a_file_is_read_whole_or_not_at_all(root: Path) -> None:
    assert read_inside(str(root), "/etc/real", 6) == b"inside"
    with pytest.raises(OSError, match="more than 5 bytes"):
        read_inside(str(root), "/etc/real", 5)


@pytest.mark.parametrize("target", ["/etc/real", "real", "../etc/./real", "/../../etc/real"])
def test_links_are_followed_from_the_root_of_the_process(root: Path, target: str) -> None:
    (root / "etc" / "link").symlink_to(target)
    assert read(root, "/etc/link") == b"inside"


@pytest.mark.parametrize("target", ["/real", "../../real", "../../../../real"])
def test_no_link_leads_out_of_it(root: Path, target: str) -> None:
    (root / "etc" / "link").symlink_to(target)
    assert read(root, "/etc/link") is None


def test_no_dots_lead_out_of_it(root: Path) -> None:
    assert read(root, "/../real") is None
    assert read(root, "/../etc/../../etc/real") == b"inside"


def test_a_folder_may_be_a_link(root: Path) -> None:
    (root / "home").symlink_to("/etc")
    assert read(root, "/home/real") == b"inside"


def test_links_in_a_circle_end(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    assert read(root, "/a") is None


@pytest.mark.parametrize("path", ["/none", "/etc/real/below", "/etc", "/", ""])
def test_what_is_no_regular_file_is_none(root: Path, path: str) -> None:
    assert read(root, path) is None


def test_a_pipe_is_not_opened(root: Path) -> None:
    os.mkfifo(root / "pipe")  # opening it would wait for a writer
    assert read(root, "/pipe") is None


@pytest.mark.parametrize(
    "path", ["/proc/self/status", "/proc/kmsg", "/proc/version", "/sys/kernel/uevent_seqnum"]
)
def test_files_of_the_kernel_are_not_opened(path: str) -> None:
    with pytest.raises(OSError, match=r"file system: (proc|sysfs)"):
        read_inside("/proc/self/root", path, 100)


def test_neither_are_devices() -> None:
    try:
        assert read_inside("/proc/self/root", "/dev/zero", 100) is None  # in a container
    except OSError as error:
        assert "file system: devtmpfs" in str(error)  # noqa: PT017 - one of two


def test_a_link_to_a_file_of_the_kernel_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "conf").symlink_to("/proc/version")
    with pytest.raises(OSError, match="file system: proc"):
        read_inside("/proc/self/root", f"{tmp_path}/conf", 100)
    (tmp_path / "conf").unlink()
    (tmp_path / "conf").write_text("plain")
    assert read_inside("/proc/self/root", f"{tmp_path}/conf", 100) == b"plain"
