"""What failed of a part, beside the values that it still gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Trouble:
    """One partial failure of a source: an endpoint, a page, a line, a device, a counter, a call.

    `target` names what failed (a URL without secrets, a device, a function), `reason` is a short
    word to count by, `detail` the words of whoever refused. Equal values are one cause.
    """

    target: str
    reason: str
    detail: str = ""
