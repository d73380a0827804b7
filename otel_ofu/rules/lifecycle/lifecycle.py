"""One rule on one entity over time, as a pure function: state, what was seen -> state, move.

inactive (no state) -> pending -> firing -> recovering -> resolved (no state again). Unknown moves
nothing; when it lasts `missing_timeout_s`, a firing finding ends as no_data and a pending one is
forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from otel_ofu.rules.files.rule import Timing
from otel_ofu.rules.verdicts import CLEAR, HOLDS, UNKNOWN


class Phase(StrEnum):
    PENDING = "pending"
    FIRING = "firing"
    RECOVERING = "recovering"


class Move(StrEnum):
    """What people are told of."""

    OPENED = "opened"
    RECOVERED = "recovered"
    NO_DATA = "no_data"


@dataclass(frozen=True, slots=True)
class State:
    """Unix seconds. `since_s`: when the condition began to hold; `fired_s`: when `for` was over.

    `calm_s`: since when it is calm; `unknown_s`: since when nothing is known.
    """

    phase: Phase
    since_s: float
    fired_s: float | None = None
    calm_s: float | None = None
    unknown_s: float | None = None

    @property
    def is_settled(self) -> bool:
        """Firing, and known to be: when the condition holds again nothing changes."""
        return self.phase is Phase.FIRING and self.unknown_s is None


@dataclass(frozen=True, slots=True)
class Seen:
    """One round: verdicts of the condition and of `clear` (HOLDS where the rule has none).

    `gap_s`: how long ago the round before was; longer than `missing_timeout_s` is as if the time
    between had been unknown.
    """

    now_s: float
    verdict: int
    clears: int = HOLDS
    gap_s: float = 0.0


Step = tuple[State | None, Move | None]


def step(state: State | None, seen: Seen, timing: Timing) -> Step:
    """The next state, None for inactive, and what happened."""
    if state is None:
        return _begin(seen, timing) if seen.verdict == HOLDS else (None, None)
    state = _not_after(state, seen.now_s)
    if state.phase is not Phase.PENDING:
        return _firing(state, seen, timing)
    if seen.gap_s > timing.missing_timeout_s:  # nobody looked: what held then proves nothing now
        return step(None, seen, timing)
    return _pending(state, seen, timing)


def _begin(seen: Seen, timing: Timing) -> Step:
    return _hold(State(Phase.PENDING, seen.now_s), seen, timing)


def _pending(state: State, seen: Seen, timing: Timing) -> Step:
    if seen.verdict == UNKNOWN:
        return _unknown(state, seen, timing)
    if seen.verdict == CLEAR:
        return None, None
    return _hold(_known(state), seen, timing)


def _hold(state: State, seen: Seen, timing: Timing) -> Step:
    if seen.now_s - state.since_s < timing.for_s:
        return state, None
    return replace(state, phase=Phase.FIRING, fired_s=seen.now_s), Move.OPENED


def _firing(state: State, seen: Seen, timing: Timing) -> Step:
    if seen.verdict == HOLDS:
        return _again(state), None
    if UNKNOWN in (seen.verdict, seen.clears):
        return _unknown(state, seen, timing)
    if seen.clears == CLEAR:  # between the two conditions
        return _again(state), None
    return _calm(_known(state), seen, timing)


def _again(state: State) -> State:
    if state.is_settled:
        return state
    return replace(state, phase=Phase.FIRING, calm_s=None, unknown_s=None)


def _calm(state: State, seen: Seen, timing: Timing) -> Step:
    calm_s = seen.now_s if state.calm_s is None else state.calm_s
    if seen.now_s - calm_s >= timing.keep_firing_for_s:
        return None, Move.RECOVERED
    return replace(state, phase=Phase.RECOVERING, calm_s=calm_s), None


def _unknown(state: State, seen: Seen, timing: Timing) -> Step:
    unknown_s = seen.now_s if state.unknown_s is None else state.unknown_s
    if seen.now_s - unknown_s < timing.missing_timeout_s:
        return (state if state.unknown_s is not None else replace(state, unknown_s=unknown_s)), None
    return None, None if state.phase is Phase.PENDING else Move.NO_DATA


def _known(state: State) -> State:
    return state if state.unknown_s is None else replace(state, unknown_s=None)


def _not_after(state: State, now_s: float) -> State:
    """After the clock was set back nothing began in the future: it waits anew, never less."""
    calm_s, unknown_s = _until(state.calm_s, now_s), _until(state.unknown_s, now_s)
    since_s = min(state.since_s, now_s)
    if (since_s, calm_s, unknown_s) == (state.since_s, state.calm_s, state.unknown_s):
        return state
    return replace(state, since_s=since_s, calm_s=calm_s, unknown_s=unknown_s)


def _until(time_s: float | None, now_s: float) -> float | None:
    return None if time_s is None else min(time_s, now_s)
