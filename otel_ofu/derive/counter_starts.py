"""When counters began that appear with their first event: an XID has no series before.

Enters: readings. Leaves: the start of each such counter that appeared while its device was read:
the end of the last reading without it, from which time on it is known to have been 0. A counter
that is there in the first reading of a device has an unknown past, and no start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import Reading


@dataclass(frozen=True, slots=True)
class CounterStart:
    """`start_s`: until then it was 0; `seen_s`: the end of the reading that first had it."""

    start_s: float
    seen_s: float


@dataclass(slots=True)
class _Device:
    """`read_s`: the end of the last reading with values; `known`: counters that were ever there."""

    read_s: float
    known: set[str]
    beginnings: dict[str, CounterStart] = field(default_factory=dict)


class CounterStarts:
    """By device, for the past of its counters is not that of a job on it."""

    def __init__(self, registry: Registry) -> None:
        self._names = {key for key, metric in registry.metrics.items() if metric.is_sparse}
        self._devices: dict[str, _Device] = {}

    def observe(self, reading: Reading) -> Mapping[str, CounterStart]:
        """The known beginnings of a device's counters; a reading may be given more than once."""
        device = self._devices.get(reading.device.uuid)
        if device is None:
            return self._first(reading)
        for key in self._sparse(reading.values):
            if key not in device.known:
                device.beginnings[key] = CounterStart(device.read_s, reading.window.end_s)
                device.known.add(key)
        device.known.update(self._sparse(reading.gaps))
        if reading.values:
            device.read_s = reading.window.end_s
        return device.beginnings

    def retain(self, devices: Collection[str]) -> None:
        """Forgets all other devices."""
        self._devices = {uuid: known for uuid, known in self._devices.items() if uuid in devices}

    def _first(self, reading: Reading) -> Mapping[str, CounterStart]:
        if reading.values:
            known = {*self._sparse(reading.values), *self._sparse(reading.gaps)}
            self._devices[reading.device.uuid] = _Device(reading.window.end_s, known)
        return {}

    def _sparse(self, keys: Iterable[str]) -> Iterable[str]:
        return [key for key in keys if key.partition(":")[0] in self._names]
