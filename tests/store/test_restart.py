from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from otel_ofu.model import Entity
from otel_ofu.store import Retention, StateInUseError, StateUnusableError
from otel_ofu.store.slots import load_entities
from tests.store.fleets import NAN, START_S, Bench, gpu, seen

HOURS = Retention(depth_s=300, minutes={("gpu", "ofu"): 7200.0})


def filled(folder: Path, retention: Retention | None = HOURS) -> Bench:
    bench = Bench(retention, folder)
    for at_s in range(10, 210, 10):
        bench.write(
            seen(gpu("a", "j1"), at_s, {"ofu": at_s / 1000, "energy": 1e12 + 7 * at_s}),
            seen(gpu("b", "j1"), at_s, {"ofu": 0.5}),
        )
    return bench


def test_history_entities_and_minutes_survive_a_restart(tmp_path: Path) -> None:
    before = filled(tmp_path)
    rows, minutes = before.rows("ofu", 200, 200), before.minutes("ofu", 180, 200)
    before.store.close()
    after = Bench(HOURS, tmp_path)
    assert after.store.messages == []
    assert after.rows("ofu", 200, 200) == rows == [at_s / 1000 for at_s in range(10, 210, 10)]
    assert after.minutes("ofu", 180, 200) == minutes
    assert after.store.entities("gpu") == before.store.entities("gpu")
    assert [e.id for e in after.store.entities("job")] == ["j1"]
    assert after.store.membership.peers(2).tolist() == [0, 0]
    after.store.end("gpu", "a")
    after.store.end("gpu", "b")
    assert after.store.entities("job") == []
    after.store.close()


def test_counters_go_on_from_their_last_value(tmp_path: Path) -> None:
    filled(tmp_path).store.close()
    after = Bench(HOURS, tmp_path)
    after.write(seen(gpu("a", "j1"), 240, {"energy": 1e12 + 7 * 240}))
    np.testing.assert_equal(after.rows("energy", 50, 240), [7 * 10.0, NAN, NAN, NAN, 7 * 40.0])
    after.store.close()


def test_time_that_passed_in_between_is_missing(tmp_path: Path) -> None:
    filled(tmp_path).store.close()
    after = Bench(HOURS, tmp_path)
    after.write(seen(gpu("a", "j1"), 9_000, {"ofu": 0.9}))
    assert [v for v in after.rows("ofu", 300, 9_000) if not np.isnan(v)] == [0.9]
    after.store.close()


def test_a_kill_loses_nothing_but_entities_that_were_not_listed_yet(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from tests.store.test_restart import filled; from tests.store.fleets import gpu, seen;"
        "bench = filled(Path(sys.argv[1]));"
        "bench.write(seen(gpu('a', 'j1'), 210, {'ofu': 1}));"
        "bench.store.save();"
        "bench.write(seen(gpu('c', 'j2'), 212, {'ofu': 0.7}));"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    after = Bench(HOURS, tmp_path)
    assert after.store.messages == []
    assert after.rows("ofu", 20, 210) == [0.2, 1.0]
    assert [e.id for e in after.store.entities("gpu")] == ["a", "b"]
    after.write(seen(gpu("d", "j2"), 220, {"ofu": 0.3}))
    np.testing.assert_equal(after.rows("ofu", 20, 220, column=2), [NAN, 0.3])
    after.store.close()


def test_new_entities_are_listed_within_a_few_seconds(tmp_path: Path) -> None:
    bench = Bench(HOURS, tmp_path)
    listed = tmp_path / "store" / "gpu.entities"
    bench.write(seen(gpu("a", "j1"), 2, {"ofu": 0.5}, length_s=1))
    assert not listed.exists()
    bench.write(seen(gpu("a", "j1"), 7, {"ofu": 0.5}, length_s=1))
    assert [row.id for row in load_entities(listed)] == ["a"]
    first = listed.stat().st_ino
    for at_s in range(12, 52, 10):
        bench.write(seen(gpu("a", "j1"), at_s, {"ofu": 0.5}))
    assert listed.stat().st_ino == first
    bench.write(seen(gpu("b", "j1"), 54, {"ofu": 0.5}))
    assert [row.id for row in load_entities(listed)] == ["a", "b"]
    bench.store.close()


def test_entities_that_come_all_the_time_do_not_keep_others_from_being_forgotten(
    tmp_path: Path,
) -> None:
    bench = Bench(Retention(depth_s=300, forget_s=30), tmp_path)
    for at_s in range(10, 100, 10):
        bench.write(seen(gpu(f"g{at_s}"), at_s, {"ofu": 0.5}))
    assert "g10" not in [e.id for e in bench.store.entities("gpu")]
    bench.store.close()


def test_a_list_that_is_older_than_the_history_gives_nobody_anothers(tmp_path: Path) -> None:
    bench = filled(tmp_path)
    bench.store.save()
    listed = (tmp_path / "store" / "gpu.entities").read_bytes()
    bench.store.end("gpu", "b")
    bench.write(seen(gpu("c"), 210, {"ofu": 0.9}))
    bench.store.close()
    (tmp_path / "store" / "gpu.entities").write_bytes(listed)
    after = Bench(HOURS, tmp_path)
    assert [e.id for e in after.store.entities("gpu")] == ["a"]
    after.store.close()


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda raw: b"", "not a store file"),
        (lambda raw: b"hello" * 50_000, "not a store file"),
        (lambda raw: raw[:-4096], "it is cut off"),
        (lambda raw: raw[:30] + b"#" + raw[31:], "its header is damaged"),
    ],
)
def test_a_file_that_cannot_be_used_is_set_aside(tmp_path: Path, harm: object, reason: str) -> None:
    assert callable(harm)
    filled(tmp_path).store.close()
    path = tmp_path / "store" / "gpu.ring"
    path.write_bytes(harm(path.read_bytes()))
    after = Bench(HOURS, tmp_path)
    (message,) = after.store.messages
    assert message.startswith(f"{path}: {reason}")
    assert message.endswith("set aside as gpu.unusable, starting with an empty history")
    assert path.with_suffix(".unusable").exists()
    assert after.store.entities("gpu") == []
    after.write(seen(gpu("a"), 300, {"ofu": 0.9}))
    assert after.rows("ofu", 10, 300) == [0.9]
    after.store.close()


def test_a_file_of_another_version_is_set_aside(tmp_path: Path) -> None:
    import zlib  # noqa: PLC0415 - this test alone writes a header

    filled(tmp_path).store.close()
    path = tmp_path / "store" / "gpu.ring"
    raw = bytearray(path.read_bytes())
    text = bytes(raw[24 : 24 + int.from_bytes(raw[16:20], "little")])
    other = text.replace(b'"version":1', b'"version":9')
    raw[20:24] = zlib.crc32(other).to_bytes(4, "little")
    raw[24 : 24 + len(other)] = other
    path.write_bytes(raw)
    after = Bench(HOURS, tmp_path)
    assert "it is of version 9, this program writes 1" in after.store.messages[0]
    after.store.close()


def test_another_step_begins_anew(tmp_path: Path) -> None:
    filled(tmp_path).store.close()
    after = Bench(HOURS, tmp_path, step_s=5.0)
    assert len(after.store.messages) == 3
    assert "its step is 10 s, now it is 5 s" in after.store.messages[0]
    after.store.close()


def test_a_damaged_list_of_entities_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    filled(tmp_path).store.close()
    path = tmp_path / "store" / "gpu.entities"
    path.write_text('[[0,"a"')
    after = Bench(HOURS, tmp_path)
    (message,) = after.store.messages
    assert message.startswith(f"{path}: ")
    assert caplog.messages == [message]
    after.store.close()


def test_one_process_at_a_time(tmp_path: Path) -> None:
    first = Bench(HOURS, tmp_path)
    with pytest.raises(StateInUseError, match="another otel-ofu keeps its history there"):
        Bench(HOURS, tmp_path)
    first.store.close()
    Bench(HOURS, tmp_path).store.close()


def test_a_directory_is_free_again_though_the_disk_refused_the_end(tmp_path: Path) -> None:
    first = filled(tmp_path)
    in_the_way = tmp_path / "store" / "gpu.new"
    in_the_way.mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        first.store.close()
    in_the_way.rmdir()
    Bench(HOURS, tmp_path).store.close()


@pytest.mark.parametrize("ends", [True, False])
def test_a_fleet_that_never_changed_is_not_forgotten_after_a_restart(
    tmp_path: Path, *, ends: bool
) -> None:
    keep = Retention(depth_s=600, forget_s=86_400)
    before = Bench(keep, tmp_path)
    for at_s in range(0, 3 * 86_400, 600):
        before.write(*(seen(gpu(name), at_s, {"ofu": 0.4}) for name in "ab"))
    if ends:
        before.store.close()
    else:  # as when the process is killed: what was written so far is there
        before.store._folder.release()
    after = Bench(keep, tmp_path)
    after.clock.set(START_S + 3 * 86_400)
    after.write(seen(gpu("a"), 3 * 86_400 + 70, {"ofu": 0.4}))
    assert [entity.id for entity in after.store.entities("gpu")] == ["a", "b"]
    after.store.close()


def test_a_directory_that_cannot_be_made_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateUnusableError, match=r"file/store: Not a directory$"):
        Bench(HOURS, tmp_path / "file")


def test_history_of_another_depth_is_kept_as_far_as_it_fits(tmp_path: Path) -> None:
    filled(tmp_path, Retention(depth_s=600)).store.close()
    after = Bench(Retention(depth_s=3600), tmp_path)
    assert after.store.messages == []
    assert after.rows("ofu", 200, 200) == [at_s / 1000 for at_s in range(10, 210, 10)]
    after.store.close()


def test_growth_is_on_disk_as_well(tmp_path: Path) -> None:
    bench = Bench(HOURS, tmp_path)
    for tick in range(1, 4):
        bench.write(*(seen(gpu(f"g{i}"), 10 * tick, {"ofu": i}) for i in range(50 * tick)))
    bench.store.close()
    after = Bench(HOURS, tmp_path)
    assert after.rows("ofu", 30, 30, column=49) == [49, 49, 49]
    assert len(after.store.entities("gpu")) == 150
    after.store.close()
    assert not list(tmp_path.glob("**/*.new"))


def test_a_disk_that_is_full_leaves_history_in_memory(tmp_path: Path) -> None:
    program = (
        "import resource, signal, sys; from pathlib import Path;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000));"
        "from tests.store.test_restart import filled; from tests.store.fleets import *;"
        "bench = filled(Path(sys.argv[1]), Retention(depth_s=3600));"
        "bench.write(*(seen(gpu(f'g{i}'), 210, {'ofu': 1, 'power': 2}) for i in range(300)));"
        "print(bench.rows('ofu', 20, 210)); print(*bench.store.messages, sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], check=True, capture_output=True, text=True
    )
    rows, *messages = done.stdout.splitlines()
    assert rows.startswith("[0.2, ")
    assert any("history does not survive a restart" in line for line in messages)


def test_a_job_that_reported_for_itself_is_not_implied_after_a_restart(tmp_path: Path) -> None:
    bench = filled(tmp_path)
    bench.write(seen(Entity("job", "j1", {"ofu.job.id": "j1"}), 200, {}))
    bench.store.close()
    after = Bench(HOURS, tmp_path)
    after.store.end("gpu", "a")
    after.store.end("gpu", "b")
    assert [e.id for e in after.store.entities("job")] == ["j1"]
    after.store.close()
