"""Passwords and tokens in files, read at each use: they are rotated while the agent runs.

Enters: a path. Leaves: the secret, or a ValueError that names the file and never what is in it.
"""

from __future__ import annotations

MOST_BYTES = 64 * 1024


def read_secret(path: str) -> str:
    """One line of text, without white space around it."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a bounded read
            raw = file.read(MOST_BYTES + 1)
        text = raw.decode("utf-8").strip()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or 'not readable'}") from error
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8") from None  # its words show what is in the file
    if len(raw) > MOST_BYTES:
        raise ValueError(f"{path}: longer than {MOST_BYTES} bytes")
    if not text:
        raise ValueError(f"{path}: the file is empty")
    if not text.isprintable():
        raise ValueError(f"{path}: expected one line")
    return text


def read_token(path: str) -> str:
    """A secret that can stand in a header: ASCII without spaces."""
    token = read_secret(path)
    if not token.isascii() or " " in token:
        raise ValueError(f"{path}: expected one token")
    return token
