"""One rule on one entity over time: rounds of 30 s, `h` holds, `c` clear, `b` between, `?` unknown.

`c` is calm: the condition is clear and `clear` holds. `b` is between: neither holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from otel_ofu.model import Finding
from otel_ofu.rules.files import RuleTiming
from otel_ofu.rules.lifecycle.step import Move, step
from otel_ofu.rules.verdicts import CLEAR, HOLDS, UNKNOWN

ROUND_S = 30.0
SEEN = {"h": (HOLDS, CLEAR), "c": (CLEAR, HOLDS), "b": (CLEAR, CLEAR), "?": (UNKNOWN, UNKNOWN)}
LETTERS = {None: ".", "pending": "p", "firing": "F", "recovering": "r"}

Trace = list[tuple[float, str, Finding | None, Move | None]]


def pending(since_s: float) -> Finding:
    return Finding("opened", "Low", None, "f", "warning", since_s, since_s, "", state="pending")


def live(rounds: str, timing: RuleTiming, every_s: float = ROUND_S) -> Trace:
    state: Finding | None = None
    trace: Trace = []
    for i, letter in enumerate(rounds):
        now_s = 1_000.0 + i * every_s
        verdict, clears = SEEN[letter]
        move: Move | None = None
        if state is not None or letter == "h":
            state, move = step(state or pending(now_s), verdict, clears, now_s, timing)
        trace.append((now_s, letter, state, move))
    return trace


def phases(trace: Trace) -> str:
    return "".join(LETTERS[state.state if state else None] for _, _, state, _ in trace)


def moves(trace: Trace) -> list[Move]:
    return [move for *_, move in trace if move]


@pytest.mark.parametrize(
    ("what", "timing", "rounds", "expected"),
    [
        ("fires at once without for", RuleTiming(), "chhc", ".FF."),
        ("waits for `for`", RuleTiming(60), "hhhh", "ppFF"),
        ("begins anew when it was clear once", RuleTiming(60), "hhchhh", "pp.ppF"),
        ("one unknown round does not begin anew", RuleTiming(60), "h?hh", "ppFF"),
        ("a pending one is forgotten when long unknown", RuleTiming(90, 0, 60), "h???h", "ppp.p"),
        ("ends when it is calm", RuleTiming(), "hcc", "F.."),
        ("stays between the two conditions", RuleTiming(), "hbbbc", "FFFF."),
        ("recovers for keep_firing_for", RuleTiming(0, 60), "hcccc", "Frr.."),
        ("fires again while it recovers", RuleTiming(0, 60), "hchccc", "FrFrr."),
        ("recovering begins anew in between", RuleTiming(0, 60), "hcbccc", "FrFrr."),
        ("unknown keeps what is firing", RuleTiming(0, 0, 90), "h??h", "FFFF"),
        ("unknown counts from its own beginning", RuleTiming(0, 0, 60), "h?h?h?h", "FFFFFFF"),
        ("unknown for long ends", RuleTiming(0, 0, 60), "h???", "FFF."),
        ("unknown keeps what is recovering", RuleTiming(0, 60, 300), "hc??c", "Frrr."),
    ],
)
def test_a_finding_goes_through_its_phases(
    what: str, timing: RuleTiming, rounds: str, expected: str
) -> None:
    assert phases(live(rounds, timing)) == expected, what


def test_the_end_says_whether_it_recovered_or_nothing_is_known() -> None:
    assert moves(live("hc", RuleTiming())) == [Move.OPENED, Move.RECOVERED]
    assert moves(live("h?????", RuleTiming(0, 0, 60))) == [Move.OPENED, Move.NO_DATA]
    assert moves(live("h?????", RuleTiming(600, 0, 60))) == []


def test_since_is_when_the_condition_began_to_hold() -> None:
    *_, (_, _, state, move) = live("chhh", RuleTiming(60))
    assert move is Move.OPENED
    assert state is not None
    assert (state.since_s, state.fired_s) == (1_030.0, 1_090.0)


def test_a_clock_that_was_set_back_lets_it_wait_longer_but_not_for_ever() -> None:
    timing = RuleTiming(60)
    state, _ = step(pending(10_000), HOLDS, HOLDS, 10_000, timing)
    assert state is not None
    state, move = step(state, HOLDS, HOLDS, 5_000, timing)
    assert move is None
    assert state is not None
    _, move = step(state, HOLDS, HOLDS, 5_060, timing)
    assert move is Move.OPENED
    calm = replace(pending(100), state="recovering", fired_s=100, calm_s=10_000)
    state, _ = step(calm, CLEAR, HOLDS, 5_000, RuleTiming(0, 60))
    assert state is not None
    assert step(state, CLEAR, HOLDS, 5_060, RuleTiming(0, 60)) == (None, Move.RECOVERED)


TIMINGS = st.builds(
    RuleTiming,
    st.sampled_from([0.0, 30.0, 60.0, 100.0, 300.0]),
    st.sampled_from([0.0, 60.0, 120.0]),
    st.sampled_from([60.0, 150.0, 600.0]),
)
ROUNDS = st.text("hcb?", min_size=1, max_size=60)


@given(ROUNDS, TIMINGS)
def test_it_never_fires_early(rounds: str, timing: RuleTiming) -> None:
    trace = live(rounds, timing)
    for i, (now_s, _, state, move) in enumerate(trace):
        if move is not Move.OPENED:
            continue
        assert state is not None
        assert now_s - state.since_s >= timing.for_s
        held = [t for t in trace[: i + 1] if t[0] >= state.since_s]
        assert held[0][1] == held[-1][1] == "h"
        assert {letter for _, letter, *_ in held} <= {"h", "?"}
        assert _longest_unknown_s(held) <= timing.missing_timeout_s


def _longest_unknown_s(trace: Sequence[tuple[float, str, Finding | None, Move | None]]) -> float:
    runs = "".join(letter for _, letter, *_ in trace).replace("h", " ").split()
    return max((len(run) - 1 for run in runs), default=0) * ROUND_S


@given(ROUNDS, TIMINGS)
def test_unknown_changes_nothing_until_its_time_is_over(rounds: str, timing: RuleTiming) -> None:
    trace = live(rounds, timing)
    for (_, _, before, _), (now_s, letter, after, move) in pairwise(trace):
        if letter != "?" or before is None:
            continue
        since_s = now_s if before.unknown_s is None else before.unknown_s
        if now_s - since_s < timing.missing_timeout_s:
            assert move is None
            assert after is not None
            assert (after.state, after.since_s, after.fired_s, after.calm_s) == (
                before.state,
                before.since_s,
                before.fired_s,
                before.calm_s,
            )
        else:
            assert after is None


@given(ROUNDS, TIMINGS)
def test_every_firing_ends_in_exactly_one_resolve(rounds: str, timing: RuleTiming) -> None:
    until_calm = "c" * 30
    moved = moves(live(rounds + until_calm, timing))
    assert [move is Move.OPENED for move in moved] == [i % 2 == 0 for i in range(len(moved))]
    assert len(moved) % 2 == 0


@given(ROUNDS, TIMINGS)
def test_what_is_firing_ends_only_by_calm_or_by_long_silence(
    rounds: str, timing: RuleTiming
) -> None:
    for now_s, letter, _, move in live(rounds, timing):
        if move is Move.RECOVERED:
            assert letter == "c", now_s
        if move is Move.NO_DATA:
            assert letter == "?", now_s


def test_an_unknown_second_condition_keeps_what_is_firing() -> None:
    timing = RuleTiming(0, 0, 60)
    state, _ = step(pending(0), HOLDS, HOLDS, 0, timing)
    assert state is not None
    state, move = step(state, CLEAR, UNKNOWN, 30, timing)
    assert state is not None
    assert (state.state, move) == ("firing", None)
    assert step(state, CLEAR, UNKNOWN, 90, timing) == (None, Move.NO_DATA)
