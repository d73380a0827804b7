"""One part of a node's load, and counters that grow from the first read on.

Enters: raw totals of disks, interfaces, ports. Leaves: values by registry key, or gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from otel_ofu.model import Gap, GapReason

Values = Mapping[str, float | Gap]

FIRST = Gap(GapReason.NOT_READY, "needs a second read")


class HostCollector(Protocol):
    """`read` gives each of `keys` at most; what is missing is a gap that the reader adds.

    It raises Gone, Denied, or ValueError, IndexError, KeyError for a file in another form.
    """

    @property
    def keys(self) -> tuple[str, ...]: ...

    def read(self, at_s: float) -> Values: ...


class GrowingTotals:
    """Sums over members that come and go: an interface that is gone takes nothing back.

    A member counts from the read after the one that first saw it.
    """

    def __init__(self) -> None:
        self._raw: dict[str, Mapping[str, int]] = {}
        self._sums: dict[str, float] = {}

    def add(self, key: str, members: Mapping[str, int]) -> float | Gap:
        """What all members counted since the first call; a gap at that one."""
        before = self._raw.get(key)
        self._raw[key] = members
        if before is None:
            self._sums[key] = 0.0
            return FIRST
        self._sums[key] += sum(grown(before, members).values())
        return self._sums[key]


def grown(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """What each member that was there before has counted since; one that restarted, from 0."""
    return {
        name: total - before[name] if total >= before[name] else total
        for name, total in now.items()
        if name in before
    }
