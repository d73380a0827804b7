"""Windows and last values of one round, each computed once however many conditions use it.

Enters: the store and an instant. Leaves: values by column of the metric's own kind of entity.
Windows that reach back an hour at most see single samples; longer ones the means of minutes; so the
history that a set of conditions needs is computed here as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import EntityKind
from otel_ofu.rules.functions import WINDOW_FUNCTIONS
from otel_ofu.rules.functions.windows import Chunk, newest
from otel_ofu.rules.language.syntax import Expression, FlagCondition, Latest, Over, owner
from otel_ofu.store import Retention, SampleBlock, Store
from otel_ofu.store.retention import Key

# Starting value: an hour of 20 metrics at 10 s is 29 kB a GPU; windows of hours need no seconds.
FINE_REACH_S = 3_600.0
# Starting values: a last value survives two lost samples, or a minute where samples are frequent.
FRESH_STEPS = 3
FRESH_S = 60.0
# Half a MiB: what several functions read of one chunk stays in the cache of the processor.
CHUNK_BYTES = 1 << 19

Values = NDArray[np.float32]
Frame = tuple[EntityKind, str, float, float]
Wanted = tuple[str, float | None]
"""A window function and the share of its quantile."""


def reach_s(node: Over) -> float:
    """How far a window reaches back."""
    return node.window_s + node.offset_s


def fresh_s(step_s: float) -> float:
    """How old a last value may be."""
    return max(FRESH_STEPS * step_s, FRESH_S)


class RoundSamples:
    """`wanted` lists every window of the round, so that those over the same samples share work."""

    def __init__(
        self, store: Store, at_s: float, wanted: Iterable[tuple[EntityKind, Over]]
    ) -> None:
        self._store = store
        self._at_s = at_s
        self._wanted: dict[Frame, set[Wanted]] = defaultdict(set)
        for kind, node in wanted:
            self._wanted[_frame(kind, node)].add((node.function, node.q))
        self._values: dict[tuple[Frame, Wanted], Values] = {}
        self._samples: dict[Frame, Values] = {}
        self._latest: dict[tuple[EntityKind, str], Values] = {}

    def over(self, kind: EntityKind, node: Over) -> tuple[Values, Values]:
        """A window function's values, and the share of the window's samples that are there."""
        frame = _frame(kind, node)
        samples = self._samples.get(frame)
        if samples is None:
            samples = self._compute(frame)
        return self._values[frame, (node.function, node.q)], samples

    def latest(self, kind: EntityKind, node: Latest) -> Values:
        """The last values that are fresh."""
        key = kind, node.metric
        if key not in self._latest:
            self._latest[key] = self._newest(*key)
        return self._latest[key]

    def _compute(self, frame: Frame) -> Values:
        kind, metric, window_s, offset_s = frame
        end_s = self._at_s - offset_s
        fine = window_s + offset_s <= FINE_REACH_S
        read = self._store.block if fine else self._store.minutes
        block = read(kind, metric, end_s - window_s, end_s)
        values, samples = over_window(block, self._wanted[frame])
        shares: Values = samples / np.float32(block.expected)
        self._samples[frame] = shares
        self._values.update({(frame, name): value for name, value in values.items()})
        return shares

    def _newest(self, kind: EntityKind, metric: str) -> Values:
        """Last values; of a counter its total, whatever its last increment was."""
        step_s = self._store.step_s
        # A value that is exactly `fresh_s` old is still fresh: one row more than the window holds.
        start_s = self._at_s - fresh_s(step_s) - step_s
        totals, seen_s = self._store.totals(kind, metric)
        fresh = (seen_s > start_s + step_s / 2) & (seen_s < self._at_s + step_s / 2)
        if np.isfinite(seen_s).any():
            return np.where(fresh, totals, np.nan).astype(np.float32)
        block = self._store.block(kind, metric, start_s, self._at_s)
        return newest(block.array()) if block.length else _nothing(block.columns)


def _nothing(columns: int) -> Values:
    return np.full(columns, np.nan, np.float32)


def _frame(kind: EntityKind, node: Over) -> Frame:
    return kind, node.metric, node.window_s, node.offset_s


def over_window(
    block: SampleBlock, wanted: Iterable[Wanted]
) -> tuple[Mapping[Wanted, Values], Values]:
    """The values of the wanted functions over one window, and the number of samples."""
    names = tuple(wanted)
    formulas = {name: WINDOW_FUNCTIONS[name[0]].compute for name in names}
    results = {name: np.full(block.columns, _empty(name), np.float32) for name in names}
    samples = np.zeros(block.columns, np.float32)
    if block.length:
        width = max(256, CHUNK_BYTES // (4 * block.length))
        with np.errstate(all="ignore"):
            for at, part in block.chunks(width):
                chunk = Chunk(part)
                samples[at] = chunk.samples
                for name in names:
                    results[name][at] = formulas[name](chunk, name[1] or 0.0)
    return results, samples


def _empty(name: Wanted) -> float:
    value = WINDOW_FUNCTIONS[name[0]].empty
    return np.nan if value is None else value


def retention_for(
    expressions: Iterable[Expression], step_s: float, *, everything: bool = True
) -> Retention:
    """As deep as the longest window; `everything`: also metrics that no expression names."""
    depth_s = fresh_s(step_s) + step_s
    minutes: dict[Key, float] = {}
    names: set[Key] = set()
    for key, needed_s in _reaches(expressions):
        names.add(key)
        if needed_s <= FINE_REACH_S:
            depth_s = max(depth_s, needed_s)
        else:
            minutes[key] = max(needed_s, minutes.get(key, 0.0))
    return Retention(depth_s, minutes, None if everything else frozenset(names))


def _reaches(expressions: Iterable[Expression]) -> Iterator[tuple[Key, float]]:
    for expression in expressions:
        for node, kind in expression.nodes:
            if isinstance(node, Over):
                yield (owner(kind, node.scope), node.metric), reach_s(node)
            elif isinstance(node, Latest):
                yield (owner(kind, node.scope), node.metric), 0.0
            elif isinstance(node, FlagCondition):
                yield ("gpu", node.metric), 0.0
