"""Where the agent keeps what outlives it.

Enters: the config and the environment. Leaves: a folder that exists and can be written.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from otel_ofu.files.sqlite import is_full
from otel_ofu.model.errors import OtelOfuError

SYSTEM_WIDE = Path("/var/lib/otel-ofu")


def state_dir(configured: str, environ: Mapping[str, str]) -> Path:
    """The folder, made if it is not there. OtelOfuError when this user cannot write it.

    On a full disk it may not be there; the agent then works in memory.
    """
    folder = _chosen(configured, environ)
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        probe = folder / f".write-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        if is_full(error):  # each part logs what it cannot keep
            return folder
        raise OtelOfuError(
            f"state_dir {folder} cannot be written: {error.strerror}; "
            "set state_dir in the config to a folder that this user may write"
        ) from error
    return folder


def could_be_state_dir(configured: str, environ: Mapping[str, str]) -> tuple[Path, bool]:
    """The folder, and whether `state_dir` would find or make it; nothing is left behind."""
    folder = _chosen(configured, environ)
    nearest = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    try:
        with tempfile.TemporaryDirectory(prefix=".otel-ofu-", dir=nearest):
            return folder, True
    except OSError:
        return folder, False


def _chosen(configured: str, environ: Mapping[str, str]) -> Path:
    if configured:
        return Path(configured).expanduser()
    if environ.get("STATE_DIRECTORY"):  # set by systemd's StateDirectory=
        return Path(environ["STATE_DIRECTORY"].split(":")[0])
    if os.geteuid() == 0:
        return SYSTEM_WIDE
    base = environ.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(base) / "otel-ofu"
