"""A pipe is read to its end, and waits for nobody without end."""

import os
from pathlib import Path
from threading import Thread

import pytest

from otel_ofu.files.pipe import read_pipe
from tests.waiting import HANGS_S


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize(("most_bytes", "size"), [(10**6, 200_000), (1000, 1000)])
def test_a_pipe_is_read_to_its_end_or_the_limit(pipe: Path, most_bytes: int, size: int) -> None:
    def write() -> None:
        try:
            pipe.write_bytes(b"x" * 200_000)
        except BrokenPipeError:
            assert size < 200_000

    writer = Thread(target=write)
    writer.start()
    assert read_pipe(str(pipe), most_bytes, HANGS_S) == b"x" * size
    writer.join()


def test_a_pipe_without_a_writer_is_not_waited_for_without_end(pipe: Path) -> None:
    with pytest.raises(TimeoutError):
        read_pipe(str(pipe), 10, 0.0)
