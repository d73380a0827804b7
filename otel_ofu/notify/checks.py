"""Mistakes in URLs, secrets and files that a block names.

Enters: a value, and the key that it stands at. Leaves: mistakes, none of which holds a secret.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from otel_ofu.files.settings import Mistake
from otel_ofu.files.yaml import Steps
from otel_ofu.net.secrets import Secret, SecretError
from otel_ofu.net.settings import url_problem

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
