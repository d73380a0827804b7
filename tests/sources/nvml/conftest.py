"""A fresh script of the C stub for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.nvml.rig import Rig, Stub


@pytest.fixture
def stub(stub_library: Path) -> Stub:
    return Stub(stub_library)


@pytest.fixture
def rig(stub: Stub) -> Iterator[Rig]:
    """Closes the source, and then nothing may be left behind or have been misused."""
    rig = Rig(stub)
    yield rig
    rig.close()
    assert (stub.live_samples, stub.references, stub.misuse) == (0, 0, 0)
