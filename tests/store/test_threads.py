from __future__ import annotations

import threading

import numpy as np

from otel_ofu.model import Window
from tests.store.fleets import START_S, Bench, gpu
from tests.waiting import HANGS_S

POLL_S = 0.05


def test_nobody_writes_while_the_rules_read() -> None:
    bench = Bench()
    columns = bench.store.admit([gpu()], Window(START_S - 10, START_S))
    wrote = threading.Event()

    def write() -> None:
        bench.store.write_columns("gpu", "ofu", START_S, columns, np.array([0.5]))
        wrote.set()

    writer = threading.Thread(target=write)
    with bench.store.reading():
        writer.start()
        assert not wrote.wait(POLL_S)
        assert bench.store.block("gpu", "ofu", START_S - 10, START_S).length == 0
    writer.join(HANGS_S)
    assert wrote.is_set()
    assert bench.rows("ofu", 10, 0) == [0.5]
