"""Fixtures that several folders use."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from tests.peers.certs import Certificates, make_certificates
from tests.sources.nvml.rig import build_stub


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A throwaway CA with server, client, expired and foreign certificates."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def stub_library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The C stub of libnvidia-ml.so.1, built once."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc): the stub of libnvidia-ml.so.1 cannot be built")
    yield build_stub(compiler, tmp_path_factory.mktemp("nvml"))
    pynvml.nvmlLib = None  # whoever uses the bindings next finds them as they were
    pynvml._nvmlGetFunctionPointer_cache.clear()
