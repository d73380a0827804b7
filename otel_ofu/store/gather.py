"""Observations sorted into columns: one batch for each metric, bucket and span."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from otel_ofu.model import EntityKind, Observation
from otel_ofu.store.series import SeriesBatch

_Destination = tuple[EntityKind, int, int]


@dataclass(slots=True)
class _Column:
    slots: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    starts_s: dict[int, float] = field(default_factory=dict)


class Gathered:
    """Values by kind of entity, bucket and span, in the order in which they came."""

    def __init__(self) -> None:
        self._columns: dict[_Destination, dict[str, _Column]] = {}

    def add(self, seen: Observation, slot: int, bucket: int, span: int) -> None:
        """Takes the values of an observation. This loop is the cost of writing: keep it short."""
        columns = self._columns.setdefault((seen.entity.kind, bucket, span), {})
        for key, value in seen.values.items():
            column = columns.get(key)
            if column is None:
                column = columns[key] = _Column()
            column.slots.append(slot)
            column.values.append(value)
        for key, start_s in seen.starts_s.items():
            if key in columns:
                columns[key].starts_s[slot] = start_s

    def batches(self) -> Iterator[tuple[EntityKind, str, SeriesBatch]]:
        """The batches, oldest bucket first; the last value of an entity in a bucket counts."""
        for kind, bucket, span in sorted(self._columns, key=lambda to: to[1]):
            for key, column in self._columns[kind, bucket, span].items():
                yield kind, key, _batch(column, bucket, span)


def _batch(column: _Column, bucket: int, span: int) -> SeriesBatch:
    slots = np.array(column.slots, np.intp)
    starts_s = None
    if column.starts_s:
        found = [column.starts_s.get(slot, np.nan) for slot in column.slots]
        starts_s = np.array(found, np.float64)
    return SeriesBatch(bucket, slots, np.array(column.values, np.float64), span, starts_s)
