"""libdcgm without the vendor's Python, against a stub of the library written from its header."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model.clock import SystemClock
from otel_ofu.sources.dcgm.bindings import SearchPaths, load
from otel_ofu.sources.dcgm.client import ClientDependencies, DcgmClient, connect, reports
from otel_ofu.sources.dcgm.endpoint import EngineEndpoint
from otel_ofu.sources.dcgm.engine import EngineError, HostEngine
from otel_ofu.sources.dcgm.read import Interpreter
from otel_ofu.sources.dcgm.wire import (
    ClientSettings,
    DcgmSample,
    ReadRequest,
    SamplesReply,
    StartRequest,
)

HERE = EngineEndpoint("tcp", "127.0.0.1:5555")
OPEN = ClientDependencies(refusal=lambda _: "")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc): the stub of libdcgm cannot be built")
    path = tmp_path_factory.mktemp("dcgm") / "libdcgm.so.4"
    source = Path(__file__).with_name("stub.c")
    subprocess.run(
        [compiler, "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(path), str(source)], check=True
    )
    return path


@pytest.fixture
def left(library: Path) -> Iterator[ctypes.CDLL]:
    """The stub itself; what a client leaves in it fails the test."""
    stub = ctypes.CDLL(str(library))
    yield stub
    assert stub.stub_left() == 0


def start(library: Path, where: EngineEndpoint = HERE) -> StartRequest:
    ids = [f.id for f in Interpreter(load_registry(), 0.0, with_profiling=True).fields]
    settings = ClientSettings(where, library_path=str(library.parent))
    return StartRequest(settings, ids, 5.0, 1.0)


def find(bindings_path: str, library_path: str) -> HostEngine:
    loaded = load(bindings_path, library_path, SearchPaths(Path("/nowhere")))
    return connect(loaded, HERE, SystemClock(), OPEN)


def by_field(samples: list[DcgmSample]) -> dict[int, list[DcgmSample]]:
    found: dict[int, list[DcgmSample]] = {}
    for sample in samples:
        found.setdefault(sample.field, []).append(sample)
    return found


def read(client: DcgmClient, epoch: int = 0) -> SamplesReply:
    reply = client.read(ReadRequest(epoch))
    assert isinstance(reply, SamplesReply)
    return reply


def test_all_that_the_agent_reads_comes_from_the_library_alone(
    library: Path, left: ctypes.CDLL
) -> None:
    client = DcgmClient(start(library), SystemClock(), OPEN)
    first = read(client)
    assert first.targets is not None
    assert [t.device.uuid for t in first.targets] == ["GPU-0", "GPU-1", "MIG-64"]
    assert first.targets[0].device.model == "NVIDIA H100 80GB HBM3"
    assert first.targets[0].device.architecture == "hopper"
    mig = first.targets[2].device
    assert (mig.parent, mig.mig_instance_id, mig.mig_profile) == ("GPU-1", 7, "3g.40gb")
    second = read(client, first.epoch)
    fields = by_field(second.of_target[0])
    assert [s.value for s in fields[100]] == [1410, 1410]
    assert [s.value for s in fields[1004]] == [0.4375, 0.4375]
    assert fields[113][-1].value == 1980
    assert abs(fields[100][-1].ts_us / 1e6 - time.time()) < 60
    assert [s.status for s in fields[230]] == [-14]
    client.close()


def test_the_probe_knows_versions_gpus_and_the_library(library: Path, left: ctypes.CDLL) -> None:
    *_, found = reports(start(library), SystemClock(), OPEN)
    assert found.complete
    assert (found.library_version, found.engine_version) == ("4.4.2", "4.4.1")
    assert (found.gpus, found.bindings_major) == (2, 4)
    assert found.bindings_path == str(library)
    assert all(p.ok and p.backend == "gpm" for p in found.profiling)


def test_metric_groups_and_module_states_are_read(library: Path, left: ctypes.CDLL) -> None:
    engine = find("", str(library))
    assert [(g.major, g.minor, g.fields) for g in engine.metric_groups(0)] == [(1, 2, (1001, 1004))]
    assert engine.profiling_paused()
    engine.close()


def test_a_refusal_has_its_code_and_the_text_of_the_library(
    library: Path, left: ctypes.CDLL
) -> None:
    engine = find("", str(library))
    with pytest.raises(EngineError, match=r"the stub refuses") as caught:
        engine.field_group([5000])
    assert caught.value.code == -1
    engine.close()
    loaded = load("", str(library), SearchPaths(Path("/nowhere")))
    with pytest.raises(EngineError, match="the stub is gone"):
        connect(loaded, EngineEndpoint("tcp", "127.0.0.1:1"), SystemClock(), OPEN)


def test_a_unix_socket_is_named_as_one(library: Path, left: ctypes.CDLL) -> None:
    left.stub_address.restype = ctypes.c_char_p
    loaded = load("", str(library), SearchPaths(Path("/nowhere")))
    connect(loaded, EngineEndpoint("unix", "/run/dcgm.sock"), SystemClock(), OPEN).close()
    assert left.stub_address() == b"unix:/run/dcgm.sock"


def test_a_function_that_the_library_lacks_is_named(library: Path, left: ctypes.CDLL) -> None:
    loaded = load("", str(library), SearchPaths(Path("/nowhere")))
    with pytest.raises(EngineError, match="dcgmStartEmbedded") as caught:
        HostEngine(loaded, EngineEndpoint("embedded"))
    assert caught.value.code == -20
