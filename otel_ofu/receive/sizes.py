"""How much one request may hold: a small body can hold millions of empty messages.

Enters: limits, and what the readers come upon. Leaves: TooManyError as soon as a limit is passed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

from otel_ofu.receive.points import MalformedError

Noun = Literal["resources", "scopes", "metrics", "points", "fields"]


class TooManyError(MalformedError):
    """The request holds more than is taken at a time; the message is for its sender."""

    def __init__(self, noun: Noun, limit: int) -> None:
        super().__init__(f"the request has more than {limit} {noun}; send smaller batches")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The most that one request may hold. All are starting values.

    `resources`: 20 MiB, the limit of HTTP, at 1 KiB for a GPU. `points`: twice those of 20 MiB at
    206 bytes a point (docs/performance.md). `fields`: of messages in protobuf, values in JSON; ten
    for a point, which cost 0.3 us each to walk; a message that is counted and not read costs six
    more. Of resources whose layout is known nothing is walked, so only the resources count.
    """

    resources: int = 20_000
    scopes: int = 40_000
    metrics: int = 200_000
    points: int = 200_000
    fields: int = 2_000_000


class Count:
    """What is left to one request; `fields_left` is counted down in place, in the inner loop."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes: dict[Noun, int] = asdict(sizes)  # type: ignore[assignment]  # its names are the nouns
        self._left = dict(self._sizes)
        self.fields_left = sizes.fields

    def add(self, noun: Noun, number: int = 1) -> None:
        self._left[noun] -= number
        if self._left[noun] < 0:
            raise self.too_many(noun)

    def too_many(self, noun: Noun) -> TooManyError:
        return TooManyError(noun, self._sizes[noun])
