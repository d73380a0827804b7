"""Where bodies lie while they wait: the seam, and the shelf that is gone with the process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from otel_ofu.outbox.batch import Parcel


class Shelf(Protocol):
    """Keeps parcels by id; never raises after it was built."""

    def save(self, parcel: Parcel) -> bool: ...

    def load(self, parcel_id: int) -> Parcel | None: ...

    def delete(self, ids: Iterable[int]) -> None: ...


class MemoryShelf:
    """Gone with the process."""

    def __init__(self) -> None:
        self._parcels: dict[int, Parcel] = {}

    def save(self, parcel: Parcel) -> bool:
        self._parcels[parcel.id] = parcel
        return True

    def load(self, parcel_id: int) -> Parcel | None:
        return self._parcels.get(parcel_id)

    def delete(self, ids: Iterable[int]) -> None:
        for parcel_id in ids:
            self._parcels.pop(parcel_id, None)
