"""Passwords and tokens: read from a file or the environment at each use, kept out of every text.

Enters: where a secret is; files are rotated while the agent runs. Leaves: the secret for the wire,
or a `SecretError` that names the file or the variable and never what is in it; whether a client has
the token that a server asks for.
"""

from __future__ import annotations

import hmac
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from otel_ofu.model.errors import OtelOfuError

# Starting value: the tokens of service accounts have about 1 kB.
MOST_BYTES = 64 * 1024

_SEPARATORS = re.compile(r"[/?&=#]")
# Starting value: shorter ones are part of too many words to be hidden.
_SHORTEST = 4


class SecretError(OtelOfuError, ValueError):
    """A secret cannot be read; the message names the file or the variable."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A file goes before a variable."""

    file: str = ""
    env: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def given(self) -> bool:
        return bool(self.file or self.env)

    @property
    def origin(self) -> str:
        return self.file or f"environment variable {self.env}"

    def read(self) -> str:
        """One line of text without white space around it. Raises SecretError."""
        text = (_content(self.file) if self.file else self.environ.get(self.env, "")).strip()
        if not text:
            raise SecretError(f"{self.origin} is empty")
        if not text.isprintable():
            raise SecretError(f"{self.origin}: expected one line")
        return text


def read_secret(path: str) -> str:
    """The secret in a file. Raises SecretError."""
    return Secret(path).read()


def read_token(path: str) -> str:
    """A secret that can stand in a header: ASCII without spaces. Raises SecretError."""
    token = read_secret(path)
    if not token.isascii() or " " in token:
        raise SecretError(f"{path}: expected one token")
    return token


def authorization(
    *, token_file: str = "", username: str = "", password_file: str = "", password: str = ""
) -> dict[str, str]:
    """The Authorization header, none without a token or a user. Raises SecretError."""
    if token_file:
        return {"Authorization": f"Bearer {read_token(token_file)}"}
    if not username:
        return {}
    password = read_secret(password_file) if password_file else password
    return {"Authorization": f"Basic {basic_credentials(username, password)}"}


def basic_credentials(username: str, password: str) -> str:
    """As RFC 7617 has them, in UTF-8."""
    return b64encode(f"{username}:{password}".encode()).decode("ascii")


def _content(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a bounded read
            raw = file.read(MOST_BYTES + 1)
        text = raw.decode("utf-8")
    except OSError as error:
        raise SecretError(f"{path}: {error.strerror or 'not readable'}") from error
    except UnicodeDecodeError:
        raise SecretError(f"{path}: not UTF-8") from None  # its text shows what is in the file
    if len(raw) > MOST_BYTES:
        raise SecretError(f"{path}: longer than {MOST_BYTES} bytes")
    return text


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text with *** for every secret in it."""
    forms = {form for secret in secrets for form in (secret, quote(secret, safe=""))}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) >= _SHORTEST:
            text = text.replace(form, "***")
    return text


def secrets_of_url(url: str) -> list[str]:
    """What of a URL must not be shown: all of it and each part, but a web server's name.

    Where chat services are addressed (`slack://…`) the host is a token as well.
    """
    scheme, _, rest = url.partition("://")
    authority, _, tail = rest.partition("/")
    user, _, host = authority.rpartition("@")
    hosts = [] if scheme in ("http", "https") else [host]
    parts = [url, rest, user, *user.split(":"), *hosts, *_SEPARATORS.split(tail)]
    return [form for part in parts for form in (part, unquote(part)) if form]


def shown_url(url: str) -> str:
    """The URL as it may be shown: no user, password or query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


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
