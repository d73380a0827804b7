"""The real child process with the fake bindings in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import GapReason, Reading
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import SourceError, SourceUnavailable
from otel_ofu.sources.dcgm.child import ChannelClosedError, Child
from otel_ofu.sources.dcgm.settings import DcgmSettings
from otel_ofu.sources.dcgm.source import DcgmSource, probe
from otel_ofu.sources.dcgm.wire import ReadRequest, StartRequest
from tests.sources.dcgm.rig import FAKE, a10, h100
from tests.waiting import HANGS_S, wait_until

INTERVAL_S = 0.4


class Live:
    """A source with a real child, and the file that scripts its engine."""

    def __init__(self, path: Path, address: str, interval_s: float = INTERVAL_S) -> None:
        self.path = path
        self.address = address
        self.interval_s = interval_s
        self.children: list[Child] = []
        self.script(gpus=[h100(0), h100(1)])
        self.source = DcgmSource(
            self.settings,
            registry=load_registry(),
            clock=SystemClock(),
            interval_s=interval_s,
            launch=self._launch,
        )

    @property
    def settings(self) -> DcgmSettings:
        return DcgmSettings(bindings_path=str(FAKE), address=self.address)

    def _launch(self) -> Child:
        self.children.append(Child())
        return self.children[-1]

    def script(self, **state: object) -> None:
        state = {"gpus": [h100(0), h100(1)], "listening": self.address, **state}
        fresh = self.path.with_suffix(".new")
        fresh.write_text(json.dumps(state), "utf-8")
        fresh.replace(self.path)

    def read(self) -> Sequence[Reading]:
        return self.source.read(time.time())

    def until(self, holds: Callable[[Reading], bool]) -> Sequence[Reading]:
        """Read until a reading is as wanted."""

        def wanted() -> Sequence[Reading]:
            try:
                readings = self.read()
            except SourceError:
                return ()
            return readings if readings and holds(readings[0]) else ()

        return wait_until(wanted, "a reading")


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_port: str) -> Iterator[Live]:
    path = tmp_path / "state.json"
    monkeypatch.setenv("FAKE_DCGM_STATE", str(path))
    # Users run programs like this; the vendor's deprecated names must not end ours.
    monkeypatch.setenv("PYTHONWARNINGS", "error::DeprecationWarning")
    one = Live(path, open_port)
    yield one
    one.source.close()
    wait_until(lambda: not any(is_running(c) for c in one.children), "the end of the children")


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_running(child: Child) -> bool:
    return child._process.poll() is None


def test_readings_come_through_a_process_of_its_own(live: Live) -> None:
    before = set(sys.modules)
    readings = live.until(lambda r: "tensor_active" in r.values)
    assert [r.device.uuid for r in readings] == ["GPU-0", "GPU-1"]
    assert readings[1].values["tensor_active"] == 0.4375
    assert live.children[0].pid != os.getpid()
    assert not {"pydcgm", "dcgm_agent"} & (set(sys.modules) - before)


def test_a_frozen_call_never_holds_the_tick_nor_the_end(live: Live) -> None:
    live.until(lambda r: "tensor_active" in r.values)
    live.script(frozen=True, freeze_step_s=0.05)
    late = live.until(lambda r: not r.values)
    assert late[0].gaps["sm_clock"].reason is GapReason.FAILED
    assert "did not answer" in late[0].gaps["sm_clock"].detail
    live.source.close()


def test_a_child_that_is_killed_is_replaced(live: Live) -> None:
    live.until(lambda r: "tensor_active" in r.values)
    os.kill(live.children[0].pid, signal.SIGKILL)
    gone = live.until(lambda r: not r.values)
    assert "ended (status -9)" in gone[0].gaps["sm_clock"].detail
    live.source._restart_at_s = 0.0
    live.until(lambda r: "tensor_active" in r.values)
    assert len(live.children) == 2


def test_an_unexpected_error_in_the_child_is_told_in_its_words(live: Live) -> None:
    live.until(lambda r: "tensor_active" in r.values)
    live.script(gpus=[{"id": 0}], life=2)
    gone = live.until(lambda r: not r.values)
    assert "KeyError: 'uuid'" in gone[0].gaps["sm_clock"].detail


def test_close_ends_the_child_politely_and_twice(live: Live) -> None:
    live.until(lambda r: "tensor_active" in r.values)
    live.children[0].stop(HANGS_S)
    assert live.children[0]._process.returncode == 0
    live.source.close()
    live.source.close()


PARENT = """
import os, sys
from otel_ofu.sources.dcgm.child import Child
from otel_ofu.sources.dcgm.settings import DcgmSettings
from otel_ofu.sources.dcgm.wire import ReadRequest, StartRequest
child = Child()
settings = DcgmSettings(bindings_path=sys.argv[1], address=sys.argv[3])
child.send(StartRequest(settings.client(), [100], 0.2, 0.2))
child.send(ReadRequest(0))
child.receive(float(sys.argv[2]))
print(child.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("frozen", "wait_s"), [(False, 5.0), (True, 0.5)])
def test_a_child_does_not_outlive_its_parent(
    live: Live,
    frozen: bool,  # noqa: FBT001 - a table
    wait_s: float,
) -> None:
    live.script(frozen=frozen, freeze_step_s=30.0)
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", PARENT, str(FAKE), str(wait_s), live.address],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS_S,
        env=os.environ | {"PYTHONPATH": root},
    )
    pid = int(done.stdout)
    wait_until(lambda: not exists(pid), "the end of the child")


def test_what_the_vendor_prints_does_not_reach_the_protocol(live: Live, tmp_path: Path) -> None:
    noisy = tmp_path / "noisy"
    noisy.mkdir()
    for file in FAKE.glob("*.py"):
        text = file.read_text("utf-8")
        if file.name == "dcgm_fields.py":
            text += "\nprint('hello from the vendor')\n"
        (noisy / file.name).write_text(text, "utf-8")
    child = Child()
    try:
        settings = DcgmSettings(bindings_path=str(noisy), address=live.address)
        child.send(StartRequest(settings.client(), [100], 1.0, 1.0))
        child.send(ReadRequest(0))
        assert type(child.receive(HANGS_S)).__name__ == "SamplesReply"
        while b"hello from the vendor" not in child._errors:  # the two pipes are not in step
            assert child._read(HANGS_S)
    finally:
        child.stop(1.0)
    assert b"hello from the vendor" in child._errors


def test_a_child_imports_little() -> None:
    """Whatever it imports costs memory on every node, for as long as the agent runs."""
    code = "import sys, otel_ofu.sources.dcgm.worker; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANGS_S
    )
    heavy = {"yaml", "sqlite3", "logging", "tempfile", "socket", "numpy", "importlib.metadata"}
    assert heavy & set(done.stdout.split()) == set()


def test_a_broken_protocol_ends_the_child_with_a_reason(live: Live) -> None:
    child = Child()
    try:
        child.send(ReadRequest(0))
        with pytest.raises(ChannelClosedError, match="ReadRequest came before StartRequest"):
            child.receive(HANGS_S)
    finally:
        child.stop(0.0)


def test_a_child_that_cannot_be_started_is_a_closed_channel() -> None:
    with pytest.raises(ChannelClosedError, match="cannot be started"):
        Child(("/nowhere/python",))


def test_nonsense_from_a_child_is_a_closed_channel(live: Live) -> None:
    child = Child((sys.executable, "-c", "print('HTTP/1.1 400 Bad Request')"))
    try:
        with pytest.raises(ChannelClosedError, match="sent an invalid message"):
            child.receive(HANGS_S)
    finally:
        child.stop(0.0)


def test_probe_tells_versions_and_profiling(live: Live) -> None:
    live.script(gpus=[h100(0), a10(1, profiling=-33)], library_version="4.6.0")
    found = probe(live.settings, HANGS_S)
    assert found.reachable
    assert found.complete
    assert (found.library_version, found.engine_version) == ("4.6.0", "4.6.0")
    assert found.bindings_major == 4
    assert [(p.uuid, p.backend, p.ok) for p in found.profiling] == [
        ("GPU-1", "none", False),
        ("GPU-0", "gpm", True),
    ]
    assert "datacenter-gpu-manager-4-proprietary" in found.problems[0].remedy


def test_probe_of_a_frozen_engine_ends_in_time_and_keeps_what_it_learned(live: Live) -> None:
    live.script(frozen=True, freeze_step_s=0.05)
    found = probe(live.settings, 5.0)
    assert found.bindings_path == str(FAKE)
    assert not found.reachable
    assert not found.complete
    assert f"{live.address} accepts connections but did not" in found.problems[0].message


def test_an_engine_that_answers_is_reachable_and_no_other(live: Live) -> None:
    assert probe(live.settings, HANGS_S).reachable
    assert not probe(DcgmSettings(bindings_path="/nowhere"), HANGS_S).reachable


def test_a_bad_address_is_told_by_the_probe_at_once() -> None:
    with pytest.raises(SourceUnavailable, match="http://x"):
        probe(DcgmSettings(address="http://x"), 1.0)
