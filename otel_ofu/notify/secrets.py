"""Secrets: read from a file or the environment at each use, and kept out of every text.

Enters: where a secret is. Leaves: the secret for the wire, or an error that names only the place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from otel_ofu.model.errors import OtelOfuError

_SEPARATORS = re.compile(r"[/?&=#]")
_SHORTEST = 4
_MOST_BYTES = 64 * 1024


class SecretError(OtelOfuError):
    """A secret is not there; the message names the file or the variable."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A file goes before a variable. A file may be replaced while the agent runs."""

    file: str = ""
    env: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def given(self) -> bool:
        return bool(self.file or self.env)

    @property
    def place(self) -> str:
        return self.file or f"environment variable {self.env}"

    def read(self) -> str:
        """One line without white space around it. SecretError if there is none."""
        text = self._text().strip()
        if not text:
            raise SecretError(f"{self.place} is empty")
        if len(text.splitlines()) > 1:
            raise SecretError(f"{self.place} has more than one line")
        return text

    def _text(self) -> str:
        if not self.file:
            return self.environ.get(self.env, "")
        try:
            with Path(self.file).open("rb") as stream:
                return stream.read(_MOST_BYTES).decode("utf-8")
        except UnicodeDecodeError:
            raise SecretError(f"{self.file} is not UTF-8") from None
        except OSError as error:
            raise SecretError(f"{self.file} cannot be read: {error.strerror}") from None


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text with *** for every secret in it."""
    forms = {form for secret in secrets for form in (secret, quote(secret, safe=""))}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) >= _SHORTEST:
            text = text.replace(form, "***")
    return text


def secrets_of_url(url: str) -> list[str]:
    """What of a URL must not be shown: all of it and each part, but a web server's name.

    Where chat services are addressed (`slack://…`) the place of the name holds a token too.
    """
    scheme, _, rest = url.partition("://")
    authority, _, tail = rest.partition("/")
    user, _, host = authority.rpartition("@")
    hosts = [] if scheme in ("http", "https") else [host]
    pieces = [url, rest, user, *user.split(":"), *hosts, *_SEPARATORS.split(tail)]
    return [form for piece in pieces for form in (piece, unquote(piece)) if form]


def place_of_url(url: str) -> str:
    """The URL as it may be shown: no user, password or query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
