"""Counts of events of which an exporter shows the last code alone.

Enters: the last codes of a device, read by read. Leaves: `xid:<code>` -> events since the device
was first seen.

dcgm-exporter's XID gauge keeps the last code until the next. What it shows when a device is seen
for the first time is old news, and so is a code that was there before the series was away. A code
that differs from the last one is an event; the same code again cannot be told from none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

_NO_CODE = 0.0
"""What an exporter shows as long as there was no event."""


@dataclass(slots=True)
class _Events:
    last: dict[str, float]
    counts: Counter[str] = field(default_factory=Counter)


class EventCounts:
    """Belongs to one endpoint."""

    def __init__(self) -> None:
        self._devices: dict[str, _Events] = {}

    def observe(self, uuid: str, last_codes: Mapping[str, float]) -> Mapping[str, float]:
        """The counts of a device after a read; `last_codes` by registry key, without unknown."""
        events = self._devices.get(uuid)
        if events is None:
            events = self._devices[uuid] = _Events(dict(last_codes))
        for key, code in last_codes.items():
            if code != events.last.get(key, _NO_CODE):
                events.last[key] = code
                if code != _NO_CODE:
                    events.counts[f"{key}:{code:.0f}"] += 1
        return {key: float(count) for key, count in events.counts.items()}

    def retain(self, uuids: Collection[str]) -> None:
        """Forgets all other devices."""
        self._devices = {uuid: seen for uuid, seen in self._devices.items() if uuid in uuids}
