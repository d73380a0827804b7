"""Slow connections make way, those that have asked stay."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from otel_ofu.export.places import Places
from otel_ofu.model.clock import VirtualClock

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    """Ends of the server and of the client."""
    with ExitStack() as stack:
        made = [socket.socketpair() for _ in range(4)]
        for pair in made:
            for end in pair:
                end.settimeout(0)
                stack.enter_context(end)
        yield made


def is_shut(pair: Pair) -> bool:
    try:
        return pair[1].recv(1) == b""
    except BlockingIOError:
        return False


def test_the_oldest_without_a_request_makes_way(pairs: list[Pair]) -> None:
    places = Places(2, 5.0)
    assert all(places.enter(pair[0]) for pair in pairs[:3])
    assert [is_shut(pair) for pair in pairs] == [True, False, False, False]
    assert not places.asked(pairs[0][0])
    assert places.asked(pairs[1][0])
    assert places.enter(pairs[3][0])
    assert [is_shut(pair) for pair in pairs] == [True, False, True, False]


def test_requests_that_are_being_answered_stay_and_the_newcomer_goes(pairs: list[Pair]) -> None:
    places = Places(1, 5.0)
    assert places.enter(pairs[0][0])
    assert places.asked(pairs[0][0])
    assert not places.enter(pairs[1][0])
    assert not is_shut(pairs[0])
    places.leave(pairs[0][0])
    assert places.enter(pairs[1][0])


def test_a_head_that_is_not_complete_in_time_ends_the_connection(pairs: list[Pair]) -> None:
    clock = VirtualClock()
    places = Places(4, 5.0, clock.monotonic_s)
    places.enter(pairs[0][0])
    places.enter(pairs[1][0])
    places.asked(pairs[1][0])
    clock.advance(3.0)
    places.enter(pairs[2][0])
    clock.advance(2.0)
    places.drop_late()
    assert [is_shut(pair) for pair in pairs[:3]] == [True, False, False]
