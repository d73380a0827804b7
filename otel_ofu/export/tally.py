"""What became of the points of one exporter: counted, told to the agent's metrics, said once.

Enters: outcomes. Leaves: counts, and the last error in words.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger(__name__)

Observe = Callable[[str, str, int], None]
"""(exporter, outcome, points); outcomes: sent, rejected, dropped, failed."""

# Beyond this many different messages a backend is not worth more lines.
_MOST_LINES = 50


class Tally:
    """`sent`, `rejected`, `retries` and `dropped` (by reason) count since the start."""

    def __init__(self, exporter: str, observe: Observe) -> None:
        self._exporter = exporter
        self._observe = observe
        self._said: set[str] = set()
        self._failing = False
        self.sent = 0
        self.rejected = 0
        self.retries = 0
        self.dropped: dict[str, int] = {}
        self.error = ""

    def took(self, points: int, rejected: int, place: str, message: str) -> None:
        """The backend took `points` but for those rejected; `message` is what it says of them."""
        self.sent += points - rejected
        self.rejected += rejected
        self._tell("sent", points - rejected)
        self._tell("rejected", rejected)
        self.error = ""
        if rejected or message:
            self._say(f"{place}: points were rejected: {message or 'no reason given'}")

    def drop(self, points: int, reason: str, place: str, message: str) -> None:
        """The points will not be sent."""
        self.dropped[reason] = self.dropped.get(reason, 0) + points
        self._tell("dropped", points)
        self._say(f"{place}: points were dropped: {message}")

    def failed(self, points: int, place: str, message: str) -> None:
        """An attempt failed; there will be another."""
        self.retries += 1
        self._tell("failed", points)
        self._failing = True
        self._say(f"{place}: {message}; kept and tried again")

    def answered(self) -> None:
        """The backend settled a whole parcel, one way or the other."""
        if self._failing:
            self._failing = False
            self._said.clear()
            _log.warning("export %s: the backend answers again", self._exporter)

    def _tell(self, outcome: str, points: int) -> None:
        if points:
            self._observe(self._exporter, outcome, points)

    def _say(self, words: str) -> None:
        self.error = words
        if words not in self._said and len(self._said) < _MOST_LINES:
            self._said.add(words)
            _log.warning("export %s: %s", self._exporter, words)
