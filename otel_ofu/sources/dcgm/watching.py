"""Starts the watches of blocks and keeps trying what the engine refuses.

Enters: an `Engine` and `Block`s. Leaves: shares with a running watch or with their trouble.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from otel_ofu.model import GapReason
from otel_ofu.model.clock import Clock
from otel_ofu.sources.dcgm import codes, profiling
from otel_ofu.sources.dcgm.blocks import MAX_PROFILING_FIELDS, Block, Share
from otel_ofu.sources.dcgm.codes import Trouble
from otel_ofu.sources.dcgm.engine import Engine, EngineError
from otel_ofu.sources.dcgm.inventory import is_known

RETRY_S = 60.0
"""Between two tries of what was refused: a profiler or an operator holds it for minutes."""

_KEEP_PERIODS = 6

FATAL = frozenset(
    {
        codes.CONNECTION_LOST,
        codes.TIMEOUT,
        codes.LIMIT_REACHED,
        codes.DRIVER_NOT_LOADED,
        *codes.VERSION_CODES,
    }
)
"""Codes that are about the engine and not about the fields or GPUs that were asked for."""


def known_fields(engine: Engine, fields: Sequence[int]) -> list[int]:
    """Those of `fields` that the engine knows; asked one by one only if all at once fail."""
    known: list[int] = []
    for start in range(0, len(fields), _PROBE_SIZE):
        chunk = fields[start : start + _PROBE_SIZE]
        known += chunk if _all_known(engine, chunk) else [f for f in chunk if is_known(engine, f)]
    return known


_PROBE_SIZE = 64


def _all_known(engine: Engine, fields: Sequence[int]) -> bool:
    try:
        engine.drop(None, engine.field_group(fields))
    except EngineError as error:
        if error.code == codes.BAD_PARAMETER:
            return False
        raise
    return True


class Watcher:
    """Watches blocks on one engine. EngineError only for what is `FATAL`."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    def start(self, block: Block) -> None:
        """Put the block's entities into a group and try each of its shares once."""
        block.group = self._engine.group(block.entities)
        for share in block.shares:
            self._try(block, share)

    def retry(self, blocks: Iterable[Block]) -> bool:
        """Try again whatever is due; True if any of it is watched now or refused otherwise."""
        now_s = self._clock.monotonic_s()
        due = [
            (block, share)
            for block in blocks
            for share in block.shares
            if share.trouble and share.retry_at_s <= now_s
        ]
        before = [share.trouble for _, share in due]
        for block, share in due:
            self._try(block, share)
        return before != [share.trouble for _, share in due]

    def _try(self, block: Block, share: Share) -> None:
        try:
            if share.profiling:
                self._watch_profiling(block, share)
            else:
                self._watch(block, share, share.fields)
        except EngineError as error:
            if error.code in FATAL:
                raise
            share.trouble = codes.trouble(error.code, error.words)
            share.retry_at_s = self._clock.monotonic_s() + RETRY_S
        else:
            share.trouble = None

    def _watch_profiling(self, block: Block, share: Share) -> None:
        choice = self._choose(block, share)
        taken = choice.taken[:MAX_PROFILING_FIELDS]
        # Empty when the GPU has none of the counters: ask nevertheless and let the engine say why.
        for fields in profiling.attempts(taken or share.fields):
            try:
                self._watch(block, share, fields)
            except EngineError as error:
                if error.code != codes.MULTI_PASS or fields == (profiling.TENSOR_ACTIVE,):
                    raise
            else:
                self._give_up(share, choice, fields)
                return
        raise EngineError(codes.MULTI_PASS, "", "watch fields")

    def _choose(self, block: Block, share: Share) -> profiling.Choice:
        unit = block.units[0]
        if unit.gpm:
            # All counters together; the engine's list of groups is fixed text here.
            block.backend = "gpm"
            return profiling.Choice(share.fields, {})
        groups = self._engine.metric_groups(unit.gpu[1])
        block.backend = profiling.backend(groups, unit.target.architecture, unit.gpm)
        return profiling.choose(share.fields, groups)

    def _give_up(self, share: Share, choice: profiling.Choice, kept: tuple[int, ...]) -> None:
        multi_pass = codes.trouble(codes.MULTI_PASS).detail
        share.left = {
            f: Trouble(GapReason.NOT_SUPPORTED, choice.left.get(f, multi_pass))
            for f in share.fields
            if f not in kept
        }
        share.fields = kept

    def _watch(self, block: Block, share: Share, fields: tuple[int, ...]) -> None:
        handle = self._engine.field_group(fields)
        # Not for one sample only: a read that comes late must still find the last few.
        keep_s = max(1.0, _KEEP_PERIODS * share.period_s)
        try:
            share.watch = self._engine.watch(block.group, handle, share.period_s, keep_s)
        except EngineError as error:
            if error.code != codes.CONNECTION_LOST:
                self._engine.drop(None, handle)
            raise
