"""A disk that is full: a memory file system of a few pages, for who may mount one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def full_disk(folder: Path, *, inodes: bool = False) -> Iterator[Path]:
    """`folder` without a free byte, or without a free inode."""
    folder.mkdir()
    options = "size=1m,nr_inodes=2" if inodes else "size=64k"
    mount = ["mount", "-t", "tmpfs", "-o", options, "full", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a file system takes root")
    try:
        with (folder / "big").open("wb", buffering=0) as big:
            if not inodes:
                while big.write(bytes(4096)) and os.statvfs(folder).f_bavail:
                    pass
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
