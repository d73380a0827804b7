"""What every peer has in common: a built executable, a folder, a config file, a child process.

In: names of executables that `make peers` built. Out: their paths, their output, running peers.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.peers.build import where
from tests.peers.child import Child, PeerError
from tests.waiting import HANGS_S


class NotBuiltError(PeerError):
    """The executable of a peer is not in the cache folder."""


def binary(name: str) -> Path:
    """Path of a peer's or a tool's executable; NotBuiltError with what to do when it is absent."""
    path = where(name)
    if path is None:
        raise NotBuiltError(f"peer {name} is not built: run `make peers`")
    return path


def run_tool(name: str, *arguments: str) -> str:
    """Run promtool, amtool or otelcol to its end; its output, or PeerError with what it said."""
    command = [str(binary(name)), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, check=False)
    if ran.returncode != 0:
        raise PeerError(f"{name} {' '.join(arguments)}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


class Peer:
    """What the three have in common: a folder, a config file, a child process."""

    def __init__(self, workdir: Path, config_name: str) -> None:
        workdir.mkdir(parents=True, exist_ok=True)
        self.workdir = workdir
        self.config_file = workdir / config_name
        self.child: Child

    @property
    def pid(self) -> int:
        return self.child.pid

    def start(self) -> Self:
        self.child.start()
        return self

    def stop(self) -> None:
        self.child.stop()

    def kill(self) -> None:
        self.child.kill()

    def restart(self) -> None:
        self.child.restart()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()

    def write_config(self, config: Mapping[str, object]) -> None:
        """Write the config; JSON is YAML, and all three read YAML."""
        self.config_file.write_text(json.dumps(config, indent=2))
