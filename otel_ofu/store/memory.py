"""The bytes under a store: a memory-mapped file, or anonymous memory, and its layout.

A file is a header, the owners of its columns, and a section a metric; `StoreLayout` is also the
JSON in the header. Enters: a `StoreLayout`. Leaves: arrays over its parts. What was written
survives a kill of the process; a header that does not check out is `UnusableStoreError`, with the
reason.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

VERSION = 1
# The header holds the JSON of 512 series; sections begin at pages, as mmap asks for.
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


class StoreLayout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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


MAGIC = b"ofu-ring"
NEVER = -1
_HEAD_AT = 8
_PREFIX = struct.Struct("<II")  # length and CRC of the JSON
_PREFIX_AT = 16
_JSON_AT = _PREFIX_AT + _PREFIX.size

Bytes = NDArray[np.uint8]


class UnusableStoreError(Exception):
    """Why a store file cannot be used."""


class MappedMemory:
    """The mapped parts of one store. `head` is the newest bucket, `NEVER` before the first."""

    def __init__(self, layout: StoreLayout, path: Path | None) -> None:
        self.layout = layout
        self._path = path
        self._header = self._map(0, HEADER_BYTES)
        owners = self._map(HEADER_BYTES, layout.owners_bytes())
        self.owners: NDArray[np.uint64] = owners.view(np.uint64)
        self._head: NDArray[np.int64] = self._header[_HEAD_AT:_PREFIX_AT].view(np.int64)

    @classmethod
    def create(cls, layout: StoreLayout, path: Path | None) -> MappedMemory:
        """New memory; a file is reserved on disk in full. Raises OSError when it does not fit."""
        if path is not None:
            path.unlink(missing_ok=True)
            _reserve(path, 0, layout.offset(len(layout.series)))
        memory = cls(layout, path)
        memory.head = NEVER
        memory._write_header()
        return memory

    @classmethod
    def open(cls, path: Path, step_s: float) -> MappedMemory:
        """The memory that a file holds. Raises Unusable and OSError."""
        layout = _read_layout(path)
        if layout.step_s != step_s:
            raise UnusableStoreError(f"its step is {layout.step_s:g} s, now it is {step_s:g} s")
        size, wanted = path.stat().st_size, layout.offset(len(layout.series))
        if size < wanted:
            raise UnusableStoreError(f"it is cut off: {size:,} bytes of {wanted:,}")
        return cls(layout, path)

    @property
    def head(self) -> int:
        return int(self._head[0])

    @head.setter
    def head(self, bucket: int) -> None:
        self._head[0] = bucket

    def section(self, index: int) -> Bytes:
        """The bytes of one series."""
        shape = self.layout.series[index]
        return self._map(self.layout.offset(index), self.layout.section_bytes(shape))

    def add(self, shape: SeriesShape) -> Bytes:
        """The section of one more series. Raises OSError when it does not fit on the disk."""
        count = len(self.layout.series)
        layout = msgspec.structs.replace(self.layout, series=(*self.layout.series, shape))
        if self._path is not None:
            _reserve(self._path, layout.offset(count), layout.section_bytes(shape))
        self.layout = layout
        self._write_header()
        return self.section(count)

    def rename(self, path: Path) -> None:
        """Replaces another file."""
        if self._path is not None:
            self._path.replace(path)
            self._path = path

    def _map(self, offset: int, size: int) -> Bytes:
        if self._path is None:
            return np.zeros(size, np.uint8)
        return np.memmap(self._path, np.uint8, "r+", offset, (size,)).view(np.ndarray)

    def _write_header(self) -> None:
        text = msgspec.json.encode(self.layout)
        block = MAGIC, _PREFIX.pack(len(text), zlib.crc32(text)) + text
        self._header[: len(MAGIC)] = np.frombuffer(block[0], np.uint8)
        self._header[_PREFIX_AT : _PREFIX_AT + len(block[1])] = np.frombuffer(block[1], np.uint8)


def fits(layout: StoreLayout) -> bool:
    """Whether the header has room for one more series."""
    room = len(msgspec.json.encode(layout)) + 1_024 <= HEADER_BYTES - _JSON_AT
    return room and len(layout.series) < MAX_SERIES


def _reserve(path: Path, offset: int, size: int) -> None:
    """Takes the blocks now: a full disk is an error here, not a bus error at some later write."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.posix_fallocate(descriptor, offset, size)
    finally:
        os.close(descriptor)


def _read_layout(path: Path) -> StoreLayout:
    with path.open("rb") as stream:
        raw = stream.read(HEADER_BYTES)
    if raw[: len(MAGIC)] != MAGIC or len(raw) < HEADER_BYTES:
        raise UnusableStoreError("not a store file")
    length, checksum = _PREFIX.unpack_from(raw, _PREFIX_AT)
    text = raw[_JSON_AT : _JSON_AT + length]
    if zlib.crc32(text) != checksum:
        raise UnusableStoreError("its header is damaged")
    version = msgspec.json.decode(text, type=_Version).version
    if version != VERSION:
        raise UnusableStoreError(f"it is of version {version}, this program writes {VERSION}")
    return msgspec.json.decode(text, type=StoreLayout)


class _Version(msgspec.Struct, frozen=True):
    version: int
