"""Observations sorted into columns: one batch for each metric, bucket and span."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from otel_ofu.model import EntityKind, Observation
from otel_ofu.store.series import Batch

_Place = tuple[EntityKind, str, int, int]


class Gathered:
    """Values by place, in the order in which they came."""

    def __init__(self) -> None:
        self._columns: dict[_Place, tuple[list[int], list[float], list[float], list[float]]] = {}

    def add(self, seen: Observation, slot: int, place: tuple[int, int], since_s: float) -> int:
        """Takes the values of an observation, at (bucket, span); how many were not finite."""
        refused = 0
        kind = seen.entity.kind
        for key, value in seen.values.items():
            if not math.isfinite(value):
                refused += 1
                continue
            column = self._columns.setdefault((kind, key, *place), ([], [], [], []))
            column[0].append(slot)
            column[1].append(value)
            column[2].append(seen.starts_s.get(key, math.nan))
            column[3].append(since_s)
        return refused

    def batches(self) -> Iterator[tuple[EntityKind, str, Batch]]:
        """The batches, oldest bucket first; the last value of an entity in a bucket counts."""
        for (kind, key, bucket, span), column in sorted(
            self._columns.items(), key=lambda item: item[0][2]
        ):
            slots, values, starts_s, since_s = column
            batch = Batch(
                bucket,
                np.array(slots, np.intp),
                np.array(values, np.float64),
                span,
                np.array(starts_s, np.float64),
                np.array(since_s, np.float64),
            )
            yield kind, key, batch
