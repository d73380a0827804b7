"""The program as a person starts it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

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


def run(
    folder: Path, *words: str, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs to the end; at most half a minute."""
    return subprocess.run(
        arguments(*words),
        cwd=folder,
        env=environment(folder, extra),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


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
