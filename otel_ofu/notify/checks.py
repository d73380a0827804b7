"""Mistakes in secrets that a block names.

Enters: a value, and the key that it stands at. Leaves: mistakes, none of which holds a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from otel_ofu.files.settings import Mistake
from otel_ofu.net.secrets import Secret, SecretError


def secret_mistakes(
    secret: Secret, key: str, problem: Callable[[str], str] = lambda _secret: ""
) -> Iterator[Mistake]:
    """`problem` is what is wrong with the secret, without its text."""
    if not secret.given:
        return
    steps = (f"{key}_file" if secret.file else f"{key}_env",)
    try:
        why = problem(secret.read())
    except SecretError as error:
        why = "" if secret.file else str(error)  # of a file its key reports it
    else:
        why = why and f"{secret.origin} holds {why}"
    if why:
        yield steps, why
