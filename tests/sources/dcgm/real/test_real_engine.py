"""Against a real DCGM: `pytest -m peer tests/sources/dcgm/real` on a machine that has one.

OTEL_OFU_DCGM_ADDRESS, _BINDINGS and _LIBRARY say where it is, if not at the usual places;
OTEL_OFU_DCGM_EMBEDDED=1 starts an engine in the child instead of asking a running one.
"""

from __future__ import annotations

import http.server
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Reading
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import SourceError, SourceUnavailable
from otel_ofu.sources.dcgm import bindings
from otel_ofu.sources.dcgm.client import connect
from otel_ofu.sources.dcgm.settings import DcgmSettings, endpoint
from otel_ofu.sources.dcgm.source import DcgmSource, probe
from otel_ofu.sources.dcgm.wire import DcgmProbe

pytestmark = pytest.mark.peer

INTERVAL_S = 1.0

try:
    bindings.locate(
        os.environ.get("OTEL_OFU_DCGM_BINDINGS", ""),
        os.environ.get("OTEL_OFU_DCGM_LIBRARY", ""),
        bindings.SearchPaths(),
    )
except SourceUnavailable as missing:
    pytest.skip(f"no DCGM here: {missing}", allow_module_level=True)


def settings(address: str | None = None) -> DcgmSettings:
    embedded = os.environ.get("OTEL_OFU_DCGM_EMBEDDED") == "1" and address is None
    named = os.environ.get("OTEL_OFU_DCGM_ADDRESS", "") if address is None else address
    return DcgmSettings(
        address="" if embedded else named,
        embedded=embedded,
        bindings_path=os.environ.get("OTEL_OFU_DCGM_BINDINGS", ""),
        library_path=os.environ.get("OTEL_OFU_DCGM_LIBRARY", ""),
    )


def source(address: str | None = None) -> DcgmSource:
    return DcgmSource(
        settings(address), registry=load_registry(), clock=SystemClock(), interval_s=INTERVAL_S
    )


@pytest.fixture(scope="module")
def found() -> DcgmProbe:
    looked = probe(settings(), 20.0)
    if not looked.reachable:
        pytest.skip(f"no DCGM here: {looked.problems[0].message}")
    return looked


@pytest.fixture
def real(found: DcgmProbe) -> Iterator[DcgmSource]:
    one = source()
    yield one
    one.close()


def read_for(one: DcgmSource, seconds: float) -> tuple[Sequence[Reading], list[str]]:
    """Read once an interval: the last readings, and the words of ticks that had none."""
    readings: Sequence[Reading] = ()
    errors: list[str] = []
    for _ in range(round(seconds / INTERVAL_S)):
        try:
            readings = one.read(time.time())
        except SourceError as error:
            errors.append(str(error))
        time.sleep(INTERVAL_S)
    return readings, errors


def test_versions_are_told(found: DcgmProbe) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", found.library_version)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", found.engine_version)
    assert found.bindings_major == int(found.library_version.partition(".")[0])


def test_every_gpu_has_a_clock_and_either_activity_or_its_reason(
    real: DcgmSource, found: DcgmProbe
) -> None:
    readings, _ = read_for(real, 8.0)
    assert len(readings) == len(found.profiling) > 0
    states = {p.uuid: p for p in found.profiling}
    for reading in readings:
        uuid, values, gaps = reading.device.uuid, reading.values, reading.gaps
        assert not set(values) & set(gaps)
        assert 1e8 < values["max_sm_clock"] < 1e10
        assert 0 <= values["sm_clock"] < 1e10
        if states[uuid].ok:
            assert 0 <= values["tensor_active"] <= 1, gaps.get("tensor_active")
        else:
            assert gaps["tensor_active"].detail


def test_nothing_is_left_in_the_engine(found: DcgmProbe) -> None:
    if settings().embedded:
        pytest.skip("an embedded engine ends with its child")
    loaded = bindings.load(settings().bindings_path, settings().library_path)
    engine = connect(loaded, endpoint(settings()), SystemClock())
    try:
        system = engine._handle.GetSystem()
        before = len(system.GetAllGroupIds())
        one = source()
        read_for(one, 3.0)
        one.close()
        assert len(system.GetAllGroupIds()) == before
    finally:
        engine.close()


def test_a_port_where_nobody_listens_is_named(found: DcgmProbe) -> None:
    one = source("127.0.0.1:1")
    try:
        _, errors = read_for(one, 10.0)
    finally:
        one.close()
    assert any("no DCGM host engine answers at 127.0.0.1:1" in e for e in errors)


def test_a_web_server_is_called_no_engine(found: DcgmProbe) -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    looked = probe(settings(f"127.0.0.1:{server.server_port}"), 30.0)
    server.shutdown()
    server.server_close()
    thread.join()
    assert not looked.reachable
    assert looked.problems
