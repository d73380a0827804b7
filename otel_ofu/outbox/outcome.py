"""What may become of a request that was sent, and the seam to whatever sends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from otel_ofu.outbox.batch import Body

# A server that asks for a longer pause than this is tried anyway. Starting value.
MAX_RETRY_AFTER_S = 300.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """The backend took it, all but `rejected` points; `message` is its reason for those."""

    rejected: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """It will never be taken: sending it again would not help."""

    message: str


@dataclass(frozen=True, slots=True)
class TooLarge:
    """It may be taken in smaller parts."""

    message: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """Later, perhaps; not before `after_s` seconds if the backend asks for that."""

    message: str
    after_s: float | None = None


Outcome = Delivered | Refused | TooLarge | Unavailable


class Transport(Protocol):
    """Sends requests of one signal to one endpoint. Never raises for what a network may do.

    `send` takes its configured timeout, or `limit_s` seconds where that is less. `halves` divides
    what was too large; None if it cannot be divided.

    `endpoint` is for people, without secrets. `close` may be called twice; a later
    `send` opens again.
    """

    @property
    def endpoint(self) -> str: ...

    def send(self, body: Body, limit_s: float) -> Outcome: ...

    def halves(self, body: Body) -> tuple[Body, Body] | None: ...

    def close(self) -> None: ...


def short(text: str, most: int = 200) -> str:
    """One printable line of at most `most` characters out of what a server answered."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 1] + "…"
