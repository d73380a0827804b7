"""The shape of one store file: a header, the owners of its columns, and a section a metric.

Enters and leaves: plain numbers; `Layout` is also the JSON in the header.
"""

from __future__ import annotations

import msgspec

VERSION = 1
HEADER_BYTES = 65_536
PAGE_BYTES = 4_096
MAX_SERIES = 512
FLOAT32_BYTES = 4
FLOAT64_BYTES = 8


class SeriesShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One metric: its key, whether it is a cumulative counter, and its rows of minutes."""

    key: str
    counter: bool
    minutes: int = 0


class Layout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file: `rows` of `step_s` seconds and `capacity` columns in every section."""

    version: int = VERSION
    step_s: float
    rows: int
    capacity: int
    series: tuple[SeriesShape, ...] = ()

    def section_bytes(self, shape: SeriesShape) -> int:
        """Recent rows, means and counts of minutes, last raw value and when it was seen."""
        floats = self.rows + 2 * shape.minutes
        doubles = 2 if shape.counter else 0
        size = self.capacity * (floats * FLOAT32_BYTES + doubles * FLOAT64_BYTES)
        return _whole_pages(size)

    def owners_bytes(self) -> int:
        return _whole_pages(self.capacity * FLOAT64_BYTES)

    def offset(self, index: int) -> int:
        """Where the section of series `index` begins; at the end: the size of the file."""
        before = sum(self.section_bytes(shape) for shape in self.series[:index])
        return HEADER_BYTES + self.owners_bytes() + before


def _whole_pages(size: int) -> int:
    return -(-size // PAGE_BYTES) * PAGE_BYTES
