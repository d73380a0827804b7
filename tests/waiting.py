"""Waiting for what must come: the limit ends a test that hangs and decides nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

HANGS_S = 300.0
"""Starting value: ten times what the longest wait takes on a loaded machine."""

POLL_S = 0.01

T = TypeVar("T")


def wait_until(ask: Callable[[], T], what: str) -> T:
    """Ask until the answer is truthy and return it."""
    end_s = time.monotonic() + HANGS_S
    while not (answer := ask()):
        hangs = f"waited {HANGS_S:g} s for {what}, last answer: {answer!r}"
        assert time.monotonic() < end_s, hangs
        time.sleep(POLL_S)
    return answer
