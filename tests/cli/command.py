"""The program as a person starts it: its words in this process, or a process of its own.

A process costs half a second of processor time. It is for what only a process shows: signals,
pipes, the agent while it runs, the driver library; words and files are judged in this one.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from otel_ofu.cli import main
from tests.waiting import HANGS_S

ROOT = Path(__file__).resolve().parents[2]
NOWHERE = """\
receivers:
  gpu:
    interval: 500ms
    dcgm: {bindings_path: /nonexistent}
    scrape: {endpoints: [{url: 'http://127.0.0.1:9/metrics'}]}
"""


def environment(folder: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Nothing of the machine's own settings but the path; state under `folder`."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {
        **kept,
        "HOME": str(folder),
        "STATE_DIRECTORY": str(folder / "state"),
        "PYTHONPATH": str(ROOT),
        **(extra or {}),
    }


def arguments(*words: str) -> list[str]:
    return [sys.executable, "-m", "otel_ofu", *words]


@dataclass(frozen=True)
class Done:
    """How it ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def run(folder: Path, *words: str, extra: Mapping[str, str] | None = None) -> Done:
    """Runs to the end in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        chdir(folder),
        _only(environment(folder, extra)),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            status: object = main.run(words)
        except SystemExit as end:  # argparse ends so
            status = end.code or 0
    assert isinstance(status, int)
    return Done(status, out.getvalue(), err.getvalue())


@contextmanager
def _only(variables: Mapping[str, str]) -> Iterator[None]:
    """No other environment while the block runs."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_process(
    folder: Path, *words: str, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs to the end in a process of its own."""
    return subprocess.run(
        arguments(*words),
        cwd=folder,
        env=environment(folder, extra),
        capture_output=True,
        text=True,
        timeout=HANGS_S,
        check=False,
    )


def run_until(text: str, folder: Path, *words: str, extra: Mapping[str, str] | None = None) -> Done:
    """Runs in a process of its own until a line of its output holds `text`, or it ends."""
    lines: list[str] = []
    with started(folder, *words, extra=extra) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if text in line:
                break
        process.send_signal(signal.SIGTERM)
        rest, err = process.communicate(timeout=HANGS_S)
    return Done(process.returncode, "".join(lines) + rest, err)


@contextmanager
def started(
    folder: Path, *words: str, extra: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Runs while the block does; whatever happens in it, nothing is left running."""
    process = subprocess.Popen(
        arguments(*words),
        cwd=folder,
        env=environment(folder, extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()
