from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

import pytest

from otel_ofu.evidence.flags import FlagScanner
from otel_ofu.model.clock import VirtualClock
from tests.evidence.flags.rig import BOOK, NOW_S, Rig, seen_in
from tests.evidence.tree import Holder, Tree, gpu
from tests.waiting import HANGS_S

DETAIL = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
KEY = "flag:TORCH_DISTRIBUTED_DEBUG"


def test_between_two_intervals_the_last_scan_is_told(tree: Tree) -> None:
    tree.process(7, DETAIL)
    rig = Rig(tree)
    first = rig.scanner.scan(NOW_S)
    tree.process(7, {}, env_start=1)
    assert rig.scanner.scan(NOW_S + 29.9) is first
    assert seen_in(rig.scanner.scan(NOW_S + 30.0)) == set()


def test_a_clock_that_was_set_back_does_not_stop_it(tree: Tree) -> None:
    tree.process(7, {})
    rig = Rig(tree)
    rig.scanner.scan(NOW_S)
    assert rig.scanner.scan(NOW_S - 1000).report.scanned_at_s == NOW_S - 1000


class Hanging:
    """A driver that does not answer until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.calls = 0

    def processes(self) -> list[Holder]:
        self.calls += 1
        if self.calls == 2:
            self.go.wait(HANGS_S)
        return [Holder(gpu(0), 7)]


def test_a_scan_that_hangs_keeps_nobody_and_its_last_answer_ends(tree: Tree) -> None:
    tree.process(7, DETAIL)
    driver = Hanging()
    scanner = FlagScanner(
        BOOK,
        tree.proc,
        VirtualClock(),
        processes=driver.processes,
        budget_s=0.0,
    )
    scanner.scan(NOW_S)
    scanner._worker.wait(HANGS_S)
    try:
        for tick in range(1, 4):
            assert seen_in(scanner.scan(NOW_S + 40 * tick)) == {*DETAIL}
        assert dict(scanner.scan(NOW_S + 121).devices) == {}
        assert driver.calls == 2  # no second thread waits behind the first
    finally:
        driver.go.set()
        scanner._worker.wait(HANGS_S)


def test_a_scan_after_one_that_failed_works_again(tree: Tree) -> None:
    tree.process(7, DETAIL)
    answers = [Holder(gpu(0), 7)]
    broken = True

    def processes() -> list[Holder]:
        if broken:
            raise RuntimeError
        return answers

    scanner = FlagScanner(
        BOOK,
        tree.proc,
        VirtualClock(),
        processes=processes,
        budget_s=HANGS_S,
    )
    failed = scanner.scan(NOW_S)
    assert failed.report.problems[0].startswith("a scan failed")
    assert failed.report.counts == {"scan_failed": 1}
    broken = False
    assert seen_in(scanner.scan(NOW_S + 30)) == {*DETAIL}
    assert scanner.report().problems == ()


@pytest.fixture
def pipe(tree: Tree) -> Iterator[Callable[[], None]]:
    """The environment of process 8 does not answer until this is called."""
    tree.process(7, DETAIL)
    environ = tree.process(8, DETAIL) / "environ"
    environ.unlink()
    os.mkfifo(environ)

    def answer() -> None:
        os.close(os.open(environ, os.O_RDWR | os.O_NONBLOCK))

    yield answer
    answer()


def test_a_scan_that_hangs_at_a_process_is_begun_anew_without_it(
    tree: Tree, pipe: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    holders = [Holder(gpu(0), 7), Holder(gpu(1), 8)]
    scanner = FlagScanner(
        BOOK,
        tree.proc,
        VirtualClock(),
        processes=lambda: holders,
        budget_s=0.01,
    )
    for tick in range(5):
        assert scanner.scan(NOW_S + 30 * tick).devices == {}
    scanner._worker._budget_s = HANGS_S
    again = scanner.scan(NOW_S + 121)
    assert again.devices[gpu(0)].values[KEY] == 1.0
    assert again.devices[gpu(1)].gaps
    assert again.report.counts["scan_hangs"] == 1
    assert again.report.counts["process_hangs"] == 1
    assert [m for m in caplog.messages if "another scan begins" in m] != []
    left = scanner._worker._left
    assert left is not None
    pipe()
    left.join(HANGS_S)
    assert scanner.scan(NOW_S + 140) is again  # what the one that hung found comes too late
    (tree.proc / "8" / "environ").unlink()
    tree.process(8, DETAIL)
    devices = scanner.scan(NOW_S + 151).devices
    assert [devices[gpu(n)].values[KEY] for n in (0, 1)] == [1.0, 1.0]
