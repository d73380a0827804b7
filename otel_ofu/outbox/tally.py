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
    """`sent`, `rejected`, `retries` and `dropped` (by reason) count since the start.

    `place` says what goes where, in words; each place is well or not by itself.
    """

    def __init__(self, exporter: str, observe: Observe) -> None:
        self._exporter = exporter
        self._observe = observe
        self._errors: dict[str, str] = {}
        self._failing: set[str] = set()
        self._said: set[str] = set()
        self.sent = 0
        self.rejected = 0
        self.retries = 0
        self.dropped: dict[str, int] = {}

    @property
    def error(self) -> str:
        """What is wrong now; empty when the last of every place was taken whole."""
        return "; ".join(self._errors.copy().values())

    def took(self, points: int, rejected: int, place: str, message: str) -> None:
        """The backend took `points` but for those rejected; `message` is what it says of them."""
        self.sent += points - rejected
        self.rejected += rejected
        self._tell("sent", points - rejected)
        self._tell("rejected", rejected)
        self._errors.pop(place, None)
        if rejected or message:
            self._say(place, f"points were rejected: {message or 'no reason given'}")

    def drop(self, points: int, reason: str, place: str, message: str) -> None:
        """The points will not be sent."""
        self.dropped[reason] = self.dropped.get(reason, 0) + points
        self._tell("dropped", points)
        self._say(place, f"points were dropped: {message}")

    def failed(self, points: int, place: str, message: str) -> None:
        """An attempt failed; there will be another."""
        self.retries += 1
        self._tell("failed", points)
        self._failing.add(place)
        self._say(place, f"{message}; kept and tried again")

    def answered(self, place: str) -> None:
        """The backend settled a whole parcel, one way or the other."""
        if place in self._failing:
            self._failing.discard(place)
            self._said.clear()
            _log.warning("export %s: %s: works again", self._exporter, place)

    def _tell(self, outcome: str, points: int) -> None:
        if points:
            self._observe(self._exporter, outcome, points)

    def _say(self, place: str, words: str) -> None:
        line = self._errors[place] = f"{place}: {words}"
        if line not in self._said and len(self._said) < _MOST_LINES:
            self._said.add(line)
            _log.warning("export %s: %s", self._exporter, line)
