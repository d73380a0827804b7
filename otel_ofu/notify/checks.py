"""Mistakes in URLs, secrets and files that a block names.

Enters: a value, and the key that it stands at. Leaves: mistakes, none of which holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from otel_ofu.files.settings import Mistake
from otel_ofu.files.yaml import Steps
from otel_ofu.net.secrets import Secret, SecretError

_USER = re.compile(r"//.*@")


def secret_mistakes(
    secret: Secret, key: str, problem: Callable[[str], str] = lambda _secret: ""
) -> Iterator[Mistake]:
    """`problem` says what is wrong with the secret, without its text."""
    if not secret.given:
        return
    steps = (f"{key}_file" if secret.file else f"{key}_env",)
    try:
        why = problem(secret.read())
    except SecretError as error:
        why = str(error)
    else:
        why = why and f"{secret.origin} holds {why}"
    if why:
        yield steps, why


def url_mistakes(url: str, steps: Steps) -> Iterator[Mistake]:
    if why := url_problem(url):
        hidden = _USER.sub("//***@", url.partition("?")[0])
        yield steps, f"{hidden!r} is {why}"


def url_problem(url: str) -> str:
    """What is wrong with it, without its text; empty if nothing is."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
        parts = urlsplit("")
    if not usable or any(c.isspace() or not c.isprintable() for c in url):
        return "not a URL; allowed: http(s)://host[:port][/path]"
    return "a URL with a user or password in it; use http_config" if "@" in parts.netloc else ""


def tried(attempt: Callable[[], object], steps: Steps) -> Iterator[Mistake]:
    """What an attempt fails with, as a mistake at `steps`."""
    try:
        attempt()
    except ValueError as error:
        yield steps, str(error)
    except OSError as error:
        yield steps, f"{error.filename}: {error.strerror}"
