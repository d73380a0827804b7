from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.sources.dcgm.rig import Rig

MakeRig = Callable[..., Rig]


@pytest.fixture
def open_port() -> Iterator[str]:
    """An address where somebody listens, as a host engine does before it says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def rig() -> Iterator[MakeRig]:
    """Makes rigs; a group, field group or handle that a rig leaves in its engine fails the test."""
    made: list[Rig] = []

    def make(state: dict[str, Any], **settings: object) -> Rig:
        made.append(Rig(state, **settings))
        return made[-1]

    yield make
    for one in made:
        assert one.close() == []
