"""The outbox keeps what was put, in order, over kills, full disks and broken files."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from otel_ofu.model.clock import VirtualClock
from otel_ofu.outbox.batch import Body, Limits, Priority
from otel_ofu.outbox.queues import Outbox, Queue
from otel_ofu.outbox.storage import OutboxError
from tests.waiting import HANGS_S

Opened = Callable[..., Outbox]


def body(number: int, size: int = 4) -> Body:
    return Body("metrics", str(number).encode().rjust(size, b"0"), 1)


def numbers(queue: Queue) -> list[int]:
    """Takes everything."""
    found = []
    while (batch := queue.take()) is not None:
        found.append(int(batch.body.gzipped[-4:]))
        queue.done(batch)
    return found


def connection_of(outbox: Outbox) -> sqlite3.Connection:
    assert outbox._disk is not None
    assert outbox._disk._connection is not None
    return outbox._disk._connection


@contextmanager
def opened(path: Path | None, limits: Limits | None = None, *names: str) -> Iterator[Outbox]:
    wanted = {name: limits or Limits() for name in names or ("otlp",)}
    with closing(Outbox(path, wanted, VirtualClock(1000.0))) as outbox:
        yield outbox


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "state" / "outbox.sqlite" if request.param == "disk" else None


def test_what_is_put_comes_out_in_order_and_events_before_metrics(place: Path | None) -> None:
    with opened(place) as outbox:
        queue = outbox.queues["otlp"]
        for number in range(4):
            queue.put(body(number), Priority.EVENTS if number == 2 else Priority.METRICS)
        assert numbers(queue) == [2, 0, 1, 3]
        assert queue.take() is None


def test_a_batch_is_what_was_put(place: Path | None) -> None:
    with opened(place) as outbox:
        queue = outbox.queues["otlp"]
        queue.put(Body("logs", b"\x00\xff", 7), Priority.EVENTS)
        batch = queue.take()
        assert batch is not None
        assert (batch.body, batch.exporter, batch.priority, batch.created_s) == (
            Body("logs", b"\x00\xff", 7),
            "otlp",
            Priority.EVENTS,
            1000.0,
        )


def test_what_is_put_back_comes_again_at_its_place(place: Path | None) -> None:
    with opened(place) as outbox:
        queue = outbox.queues["otlp"]
        queue.put(body(0))
        queue.put(body(1))
        batch = queue.take()
        assert batch is not None
        queue.put_back(batch)
        assert numbers(queue) == [0, 1]


def test_queues_do_not_touch_each_other(place: Path | None) -> None:
    with opened(place, Limits(max_bytes=8), "slow", "fast") as outbox:
        slow, fast = outbox.queues["slow"], outbox.queues["fast"]
        for number in range(5):
            slow.put(body(number))
            fast.put(body(number))
            assert numbers(fast) == [number]
        assert slow.stats().dropped == {"queue_full": 3}
        assert fast.stats().dropped == {}
        assert numbers(slow) == [3, 4]


def test_too_old_is_dropped_and_counted(place: Path | None) -> None:
    clock = VirtualClock(1000.0)
    told: list[tuple[str, str, int]] = []
    limits = {"otlp": Limits(max_age_s=60.0)}
    with closing(Outbox(place, limits, clock, lambda *say: told.append(say))) as outbox:
        queue = outbox.queues["otlp"]
        queue.put(body(0))
        clock.advance(61.0)
        queue.put(body(1))
        assert queue.stats().dropped == {"expired": 1}
        assert told == [("otlp", "dropped", 1)]
        assert numbers(queue) == [1]


def test_stats_tell_bytes_bodies_and_capacity(place: Path | None) -> None:
    with opened(place, Limits(max_bytes=100)) as outbox:
        queue = outbox.queues["otlp"]
        queue.put(body(0, size=30))
        queue.put(body(1, size=12))
        stats = queue.stats()
        assert (stats.size_bytes, stats.capacity_bytes, len(queue)) == (42, 100, 2)
        numbers(queue)
        assert queue.stats().size_bytes == 0


def test_a_wait_ends_with_a_put_and_does_not_miss_one_that_came_before() -> None:
    with opened(None) as outbox:
        queue = outbox.queues["otlp"]
        before = threading.Thread(target=queue.wait, args=(2 * HANGS_S,))
        queue.put(body(0))
        before.start()
        before.join(HANGS_S)
        assert not before.is_alive()
        after = threading.Thread(target=queue.wait, args=(2 * HANGS_S,))
        after.start()
        queue.put(body(1))
        after.join(HANGS_S)
        assert not after.is_alive()


def test_a_restart_finds_everything_again_in_order(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    with opened(path) as outbox:
        for number in range(3):
            outbox.queues["otlp"].put(body(number))
        outbox.queues["otlp"].put(body(3), Priority.EVENTS)
        batch = outbox.queues["otlp"].take()
        assert batch is not None
        outbox.queues["otlp"].done(batch)
    with opened(path) as outbox:
        queue = outbox.queues["otlp"]
        assert (queue.stats().size_bytes, len(queue)) == (12, 3)
        queue.put(body(4))
        assert numbers(queue) == [0, 1, 2, 4]


def test_without_a_folder_what_is_left_at_the_end_is_counted() -> None:
    with opened(None) as outbox:
        queue = outbox.queues["otlp"]
        queue.put(body(0))
        assert not queue.durable
    assert queue.stats().dropped == {"shutdown": 1}


def test_what_an_exporter_left_that_is_no_more_is_dropped_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "outbox.sqlite"
    with opened(path, None, "old") as outbox:
        outbox.queues["old"].put(body(0))
    with opened(path):
        pass
    assert caplog.messages == ["outbox: 1 unsent of 'old' dropped: no such exporter"]
    with opened(path, None, "old") as outbox:
        assert numbers(outbox.queues["old"]) == []


def test_smaller_limits_after_a_restart_drop_the_oldest(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    with opened(path) as outbox:
        for number in range(4):
            outbox.queues["otlp"].put(body(number))
    with opened(path, Limits(max_bytes=8)) as outbox:
        assert numbers(outbox.queues["otlp"]) == [2, 3]
        assert outbox.queues["otlp"].stats().dropped == {"queue_full": 2}


@pytest.mark.parametrize("reason", ["queue_full", "expired"])
def test_what_was_dropped_is_gone_from_the_disk(tmp_path: Path, reason: str) -> None:
    path, clock = tmp_path / "outbox.sqlite", VirtualClock(1000.0)
    tight = Limits(max_bytes=8) if reason == "queue_full" else Limits(max_age_s=60.0)
    with closing(Outbox(path, {"otlp": tight}, clock)) as outbox:
        queue = outbox.queues["otlp"]
        for number in range(4):
            if number == 2:
                clock.advance(61.0)
            queue.put(body(number))
        assert queue.stats().dropped == {reason: 2}
    with opened(path) as outbox:  # with room and time for all of them
        assert numbers(outbox.queues["otlp"]) == [2, 3]


WRITER = """
import sys
from pathlib import Path
from otel_ofu.model.clock import SystemClock
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.queues import Outbox
from otel_ofu.outbox.batch import Limits
queue = Outbox(Path(sys.argv[1]), {"otlp": Limits()}, SystemClock()).queues["otlp"]
number = 0
while True:
    queue.put(Body("metrics", str(number).encode(), 1))
    print(number, flush=True)
    number += 1
"""


def test_a_kill_loses_nothing_that_was_put(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        put = [int(writer.stdout.readline()) for _ in range(200)]
        writer.send_signal(signal.SIGKILL)
        put += [int(line) for line in writer.stdout.read().splitlines() if line]
    with closing(Outbox(path, {"otlp": Limits()}, VirtualClock())) as outbox:
        found = numbers(outbox.queues["otlp"])
    assert found == list(range(len(found)))
    assert len(found) >= len(put)


def test_a_second_agent_on_the_same_folder_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    with opened(path), pytest.raises(OutboxError, match="in use by another process"):
        Outbox(path, {}, VirtualClock())


def test_a_folder_that_cannot_be_written_is_told_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutboxError, match="state_dir has to be a folder"):
        Outbox(tmp_path / "file" / "outbox.sqlite", {}, VirtualClock())


@pytest.mark.parametrize("content", [b"not a database, only text" * 100, b"SQLite format 3\0" * 64])
def test_a_broken_file_is_set_aside_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    path = tmp_path / "outbox.sqlite"
    path.write_bytes(content)
    with opened(path) as outbox:
        outbox.queues["otlp"].put(body(7))
        assert numbers(outbox.queues["otlp"]) == [7]
    assert (tmp_path / "outbox.sqlite.broken").read_bytes() == content
    assert len(caplog.records) == 1


def test_a_file_of_another_version_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    with opened(path) as outbox:
        assert len(outbox.queues["otlp"]) == 0
    assert path.with_name("outbox.sqlite.broken").exists()


def test_a_folder_in_place_of_the_file_is_said_and_memory_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "outbox.sqlite").mkdir()
    with opened(tmp_path / "outbox.sqlite") as outbox:
        queue = outbox.queues["otlp"]
        assert not queue.durable
        for number in range(3):
            queue.put(body(number))
        assert numbers(queue) == [0, 1, 2]
        queue.put(body(3))
    assert queue.stats().dropped == {"shutdown": 1}
    assert len(caplog.records) == 1
    assert "a folder is in its place; a bounded part is kept in memory" in caplog.text


@pytest.mark.parametrize("successor", [False, True])
def test_what_lay_in_a_file_that_was_deleted_is_lost_and_counted(
    tmp_path: Path, *, successor: bool
) -> None:
    path = tmp_path / "outbox.sqlite"
    with opened(path) as outbox:
        queue = outbox.queues["otlp"]
        for number in range(3):
            queue.put(body(number))
        assert (queue.durable, queue.kept()) == (True, 3)
        path.rename(tmp_path / "elsewhere")
        if successor:
            path.write_bytes(b"")
        assert (queue.durable, queue.kept()) == (False, 0)
    assert queue.stats().dropped == {"shutdown": 3}


def test_what_lies_in_the_file_at_the_end_is_kept_and_not_counted(tmp_path: Path) -> None:
    with opened(tmp_path / "outbox.sqlite") as outbox:
        queue = outbox.queues["otlp"]
        queue.put(body(0))
    assert queue.stats().dropped == {}
    assert queue.kept() == 1


def test_a_file_that_breaks_while_in_use_is_counted_and_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "outbox.sqlite"
    with opened(path) as outbox:
        queue = outbox.queues["otlp"]
        for number in range(50):
            queue.put(body(number, size=4000))
        connection_of(outbox).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection_of(outbox).execute("PRAGMA cache_size = 1").fetchall()
        path.write_bytes(path.read_bytes()[:4096] + b"\xee" * (path.stat().st_size - 4096))
        assert numbers(queue) == []
        queue.put(body(50))
        assert numbers(queue) == [50]
        assert queue.stats().dropped == {"unreadable": 50}
    assert len(caplog.records) == 1


@pytest.mark.parametrize("seed", range(20))
def test_damage_anywhere_in_the_file_costs_at_most_what_was_in_it(
    tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "outbox.sqlite"
    with opened(path) as outbox:
        for number in range(30):
            outbox.queues["otlp"].put(body(number, size=6000))
    chance = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 5, 40])):
        at = chance.randrange(len(content) - 64)
        content[at : at + 64] = chance.randbytes(64)
    path.write_bytes(content[: len(content) - chance.choice([0, 0, 10_000])])
    with opened(path) as outbox:
        queue = outbox.queues["otlp"]
        queue.put(Body("metrics", b"new", 1))
        found = []
        while (batch := queue.take()) is not None:
            found.append(batch.body.gzipped)
            queue.done(batch)
        assert b"new" in found
        assert len(found) <= 31


def test_a_full_disk_is_said_once_kept_in_memory_and_recovers_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path / "outbox.sqlite") as outbox:
        queue = outbox.queues["otlp"]
        connection = connection_of(outbox)
        queue.put(body(0))
        connection.execute("PRAGMA max_page_count = 4").fetchall()
        for number in range(1, 6):
            queue.put(body(number, size=20_000))
        assert len(caplog.records) == 1
        assert "full" in caplog.text
        connection.execute("PRAGMA max_page_count = 100000").fetchall()
        queue.put(body(6))
        assert caplog.messages[1].endswith("writing works again")
        assert numbers(queue) == list(range(7))
        assert queue.stats().dropped == {}


def test_what_a_full_disk_leaves_to_memory_is_bounded_and_counted(tmp_path: Path) -> None:
    with opened(tmp_path / "outbox.sqlite", Limits(max_bytes=50_000)) as outbox:
        queue = outbox.queues["otlp"]
        connection_of(outbox).execute("PRAGMA max_page_count = 4").fetchall()
        for number in range(5):
            queue.put(body(number, size=20_000))
        assert queue.stats().dropped == {"queue_full": 3}
        assert numbers(queue) == [3, 4]


def test_what_a_read_only_disk_cannot_delete_is_not_sent_twice(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    with opened(path) as outbox:
        queue = outbox.queues["otlp"]
        queue.put(body(0))
        queue.put(body(1))
        connection_of(outbox).execute("PRAGMA query_only = 1")
        queue.put(body(2))
        assert numbers(queue) == [0, 1, 2]
        assert queue.take() is None
        connection_of(outbox).execute("PRAGMA query_only = 0")
        queue.put(body(3))
    with opened(path) as outbox:
        assert numbers(outbox.queues["otlp"]) == [3]


def test_an_event_that_only_memory_took_still_overtakes_the_metrics_on_the_disk(
    tmp_path: Path,
) -> None:
    with opened(tmp_path / "outbox.sqlite") as outbox:
        queue = outbox.queues["otlp"]
        queue.put(body(0))
        connection_of(outbox).execute("PRAGMA query_only = 1")
        queue.put(body(1), Priority.EVENTS)
        assert numbers(queue) == [1, 0]


FULL_DISK = """
import resource, sys
from pathlib import Path
from otel_ofu.model.clock import SystemClock
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.queues import Outbox
from otel_ofu.outbox.batch import Limits
outbox = Outbox(Path(sys.argv[1]), {"otlp": Limits(max_bytes=200_000)}, SystemClock())
queue = outbox.queues["otlp"]
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for number in range(100):
    queue.put(Body("metrics", bytes(10_000), 1))
taken = 0
while (batch := queue.take()) is not None:
    queue.done(batch)
    taken += 1
print(taken, sum(queue.stats().dropped.values()))
"""


def test_an_agent_whose_files_may_not_grow_lives_on_within_its_bounds(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True
    )
    taken, dropped = map(int, ran.stdout.split())
    assert taken + dropped == 100
    assert 0 < taken <= 40
    assert len(ran.stderr.splitlines()) <= 2


def test_disk_space_that_an_outage_took_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    with opened(path) as outbox:
        for number in range(300):
            outbox.queues["otlp"].put(body(number, size=20_000))
    with opened(path) as outbox:
        full_bytes = path.stat().st_size
        numbers(outbox.queues["otlp"])
    assert path.stat().st_size < full_bytes / 2


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "outbox.sqlite"
    with opened(path):
        assert path.stat().st_mode & 0o077 == 0


def test_events_that_are_given_up_are_said_with_fewer_lines_the_more_there_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock(1000.0)
    with closing(Outbox(None, {"pager": Limits(max_age_s=60.0)}, clock)) as outbox:
        queue = outbox.queues["pager"]
        queue.put(Body("metrics", b"m", 1))
        clock.advance(61.0)
        assert queue.take() is None
        assert caplog.messages == []
        for _ in range(5):
            queue.put(Body("notification", b"n", 1), Priority.EVENTS)
            clock.advance(61.0)
            assert queue.take() is None
        assert queue.stats().dropped == {"expired": 6}
    line = "export pager: {} events or notifications given up so far (expired)"
    assert caplog.messages == [line.format(n) for n in (1, 2, 4)]
