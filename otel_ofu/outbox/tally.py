"""What became of the points of one exporter: counted, for the agent's metrics as well, logged once.

Enters: outcomes. Leaves: counts, and the last error as text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

_log = logging.getLogger(__name__)

Observe = Callable[[str, str, int], None]
"""(exporter, outcome, points); outcomes: sent, rejected, dropped, failed."""

# Starting value: beyond this many different messages a backend is not worth more lines.
_MOST_LINES = 50


class DeliveryCounts:
    """`sent`, `rejected`, `retries` and `dropped` (by reason) count since the start.

    `route` is what goes where, as text; each route fails and recovers by itself.
    """

    def __init__(self, exporter: str, observe: Observe) -> None:
        self._exporter = exporter
        self._observe = observe
        self._errors: dict[str, str] = {}
        self._failing: set[str] = set()
        self._logged: set[str] = set()
        self.sent = 0
        self.rejected = 0
        self.retries = 0
        self.dropped: dict[str, int] = {}

    @property
    def error(self) -> str:
        """What is wrong now; empty when the last of every route was taken whole."""
        return "; ".join(self._errors.copy().values())

    def accepted(self, points: int, rejected: int, route: str, message: str) -> None:
        """The backend took `points` but for those rejected; `message` is its reason."""
        self.sent += points - rejected
        self.rejected += rejected
        self._count("sent", points - rejected)
        self._count("rejected", rejected)
        self._errors.pop(route, None)
        if rejected or message:
            self._report(route, f"points were rejected: {message or 'no reason given'}")

    def drop(self, points: int, reason: str, route: str, message: str) -> None:
        """The points will not be sent."""
        self.dropped[reason] = self.dropped.get(reason, 0) + points
        self._count("dropped", points)
        self._report(route, f"points were dropped: {message}")

    def failed(self, points: int, route: str, message: str) -> None:
        """An attempt failed; there will be another."""
        self.retries += 1
        self._count("failed", points)
        self._failing.add(route)
        self._report(route, f"{message}; kept and tried again")

    def recovered(self, route: str) -> None:
        """The backend settled a whole batch, one way or the other."""
        if route in self._failing:
            self._failing.discard(route)
            self._logged.clear()
            _log.warning("export %s: %s: works again", self._exporter, route)

    def _count(self, outcome: str, points: int) -> None:
        if points:
            self._observe(self._exporter, outcome, points)

    def _report(self, route: str, text: str) -> None:
        line = self._errors[route] = f"{route}: {text}"
        if line not in self._logged and len(self._logged) < _MOST_LINES:
            self._logged.add(line)
            _log.warning("export %s: %s", self._exporter, line)
