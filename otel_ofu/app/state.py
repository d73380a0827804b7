"""Where the agent keeps what outlives it.

Enters: the config and the environment. Leaves: a folder that exists and can be written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from otel_ofu.errors import OtelOfuError

SYSTEM_WIDE = Path("/var/lib/otel-ofu")


def state_dir(configured: str, environ: Mapping[str, str]) -> Path:
    """The folder, made if it is not there. OtelOfuError when it cannot be written."""
    folder = _chosen(configured, environ)
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OtelOfuError(
            f"state_dir {folder} cannot be written: {error.strerror}; "
            "set state_dir in the config to a folder that this user may write"
        ) from error
    return folder


def could_be_state_dir(configured: str, environ: Mapping[str, str]) -> tuple[Path, bool]:
    """The folder, and whether `state_dir` would find or make it; nothing is made."""
    folder = _chosen(configured, environ)
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return folder, nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def _chosen(configured: str, environ: Mapping[str, str]) -> Path:
    if configured:
        return Path(configured).expanduser()
    if environ.get("STATE_DIRECTORY"):  # set by systemd's StateDirectory=
        return Path(environ["STATE_DIRECTORY"].split(":")[0])
    if os.geteuid() == 0:
        return SYSTEM_WIDE
    base = environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(base) / "otel-ofu"
