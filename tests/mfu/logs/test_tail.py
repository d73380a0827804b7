from __future__ import annotations

import os
from pathlib import Path

from otel_ofu.mfu.logs.tail import FileTail


def test_a_link_to_a_file_of_the_kernel_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.symlink_to("/proc/version")
    tail = FileTail(str(log), "beginning")
    assert list(tail.chunks(1000)) == []
    assert tail.problem == "cannot be read: not a file of a disk (file system: proc)"
    log.unlink()
    log.write_text("step 1")
    assert list(tail.chunks(1000)) == [b"step 1"]
    tail.close()


def test_a_file_that_fails_while_it_is_read_is_said_and_opened_again(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1")
    tail = FileTail(str(log), "beginning")
    assert tail.open()
    broken = os.open(log, os.O_WRONLY)
    os.dup2(broken, tail._fd)  # what was opened cannot be read any more
    os.close(broken)
    assert list(tail.chunks(1000)) == []
    assert tail.problem == "cannot be read: Bad file descriptor"
    assert list(tail.chunks(1000)) == [b"step 1"]
    tail.close()
