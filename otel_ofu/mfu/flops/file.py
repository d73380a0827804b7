"""A config.json on disk -> its mapping."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from otel_ofu.mfu.flops.errors import ModelConfigError

MAX_BYTES = 4 * 1024 * 1024


def config_path(path: str | Path) -> Path:
    """The file itself; of a model's folder the config.json in it."""
    file = Path(path)
    return file / "config.json" if file.is_dir() else file


def read_config(path: str | Path) -> dict[str, Any]:
    """The mapping of a config.json, or of the one in a model's folder. Raises ModelConfigError."""
    file = config_path(path)
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelConfigError(f"{file}: cannot be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise ModelConfigError(f"{file}: larger than {MAX_BYTES // 1024**2} MiB, the most allowed")
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ModelConfigError(f"{file}: not a JSON object: {error}") from error
    except RecursionError as error:
        raise ModelConfigError(f"{file}: nested too deeply") from error
