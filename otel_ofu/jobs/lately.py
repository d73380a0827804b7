"""The last answer of somebody who now and then gives none.

Enters: an answer, or None. Leaves: the answer, the last one for a few polls, in the end nothing. A
kubelet that restarts would otherwise end the series of every job on the node and begin others.
"""

from __future__ import annotations

from typing import Generic, TypeVar

Answer = TypeVar("Answer")
MOST_MISSED = 3
"""Polls in a row that an answer outlives."""


class Lately(Generic[Answer]):
    """Belongs to the thread that polls."""

    def __init__(self, nothing: Answer) -> None:
        self._nothing = nothing
        self._last = nothing
        self._missed = 0

    def told(self, answer: Answer | None) -> Answer:
        if answer is not None:
            self._last, self._missed = answer, 0
        else:
            self._missed += 1
            if self._missed > MOST_MISSED:
                self._last = self._nothing
        return self._last
