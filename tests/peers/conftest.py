"""Fixtures for tests that talk to real peers: factories whose peers stop with the test.

In: the binaries that `make peers` built. Without them a test skips with one line that says so; with
OTEL_OFU_PEERS=required in the environment it fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest

from tests.peers.debian import SLURM
from tests.peers.peer import NotBuiltError, Peer, binary
from tests.peers.processes import Alertmanager, Collector, Prometheus

P = TypeVar("P", bound=Peer)


def absent(reason: str) -> NoReturn:
    """Skip the test that needs a peer, or fail it where peers are required."""
    if os.environ.get("OTEL_OFU_PEERS") == "required":
        pytest.fail(f"{reason} (OTEL_OFU_PEERS=required)", pytrace=False)
    pytest.skip(reason)


def built(name: str) -> Path:
    """Path of the binary, or no test."""
    try:
        return binary(name)
    except NotBuiltError as error:
        absent(str(error))


def fetched() -> None:
    """No test without the packages of Debian's Slurm."""
    if not SLURM.is_there:
        absent("peer slurm is not there: run `make peers`")


def factory(kind: type[P], name: str, folder: Path, running: ExitStack) -> Callable[..., P]:
    """Make a function that starts one peer more in a folder of its own."""
    built(name)

    def make(*arguments: Any, start: bool = True, **options: Any) -> P:  # noqa: ANN401 (passed on)
        workdir = folder / f"{name}-{len(list(folder.glob(f'{name}-*')))}"
        peer = kind(workdir, *arguments, **options)
        running.callback(peer.stop)
        return peer.start() if start else peer

    return make


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """Stops what was started, the last first, even if one stop fails."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def collector(tmp_path: Path, running: ExitStack) -> Callable[..., Collector]:
    """`collector(tls=..., token=..., start=True)` gives a Collector."""
    return factory(Collector, "collector", tmp_path, running)


@pytest.fixture
def prometheus(tmp_path: Path, running: ExitStack) -> Callable[..., Prometheus]:
    """`prometheus(scrape=..., rules=..., flags=..., start=True)` gives a Prometheus."""
    return factory(Prometheus, "prometheus", tmp_path, running)


@pytest.fixture
def alertmanager(tmp_path: Path, running: ExitStack) -> Callable[..., Alertmanager]:
    """`alertmanager(config, flags=..., start=True)` gives an Alertmanager."""
    return factory(Alertmanager, "alertmanager", tmp_path, running)


@pytest.fixture
def promtool() -> Path:
    """Prometheus' own command line tool."""
    return built("promtool")


@pytest.fixture
def amtool() -> Path:
    """Alertmanager's own command line tool."""
    return built("amtool")
