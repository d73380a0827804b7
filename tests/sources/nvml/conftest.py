"""The C stub, built once, and a fresh script of it for every test."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from tests.sources.nvml.rig import Rig, Stub, build_stub


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc): the stub of libnvidia-ml.so.1 cannot be built")
    yield build_stub(compiler, tmp_path_factory.mktemp("nvml"))
    pynvml.nvmlLib = None  # whoever uses the bindings next finds them as they were
    pynvml._nvmlGetFunctionPointer_cache.clear()


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
