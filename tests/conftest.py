"""Fixtures that several folders use. What they need is imported when they are used: a run of a few
tests pays for nothing else."""
# ruff: noqa: PLC0415 - imports inside of the fixtures, see above

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.properties import load_profile

if TYPE_CHECKING:
    from tests.peers.certs import Certificates

load_profile()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A throwaway CA with server, client, expired and foreign certificates."""
    from tests.peers.certs import make_certificates

    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The C stub of libnvidia-ml.so.1, built once."""
    import pynvml

    from tests.sources.nvml.rig import build_stub

    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc): the stub of libnvidia-ml.so.1 cannot be built")
    yield build_stub(compiler, tmp_path_factory.mktemp("nvml"))
    pynvml.nvmlLib = None  # whoever uses the bindings next finds them as they were
    pynvml._nvmlGetFunctionPointer_cache.clear()
