"""Who may ask a server: a bearer token in a file.

Enters: a file name, the `Authorization` of a request. Leaves: yes or no.
"""

from __future__ import annotations

import hmac
import os
from contextlib import suppress
from pathlib import Path

# Starting value: half of what the head of a request may have.
_LONGEST_TOKEN = 8192


class BearerToken:
    """The token in a file, read again when the file changes. ValueError for an unusable file.

    While a changed file cannot be read, the old token holds.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int, int] | None = None
        try:
            self._token = self._read()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "no text"
            raise ValueError(f"token_file {path}: {why}") from error
        if not self._token:
            raise ValueError(f"token_file {path}: the file is empty, or longer than 8 KiB")

    def allows(self, authorization: str) -> bool:
        """Whether this is `Bearer` with the token; takes as long for a wrong one."""
        # A secret that is being replaced is away for a moment.
        with suppress(OSError, UnicodeDecodeError):
            self._token = self._read() or self._token
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self._token)
        return same and scheme.lower() == "bearer"

    def _read(self) -> bytes:
        """The token; empty when the file is as it was, or holds none."""
        status = os.stat(self._path)  # noqa: PTH116 - one call a request
        stamp = status.st_mtime_ns, status.st_size, status.st_ino
        if stamp == self._stamp or status.st_size > _LONGEST_TOKEN:
            return b""
        token = self._path.read_text("utf-8").strip().encode()
        self._stamp = stamp
        return token
