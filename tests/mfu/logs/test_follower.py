"""Files that grow, move, shrink, vanish and come back; commands that end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.mfu.logs import FollowedLog, Follower, PathTemplate, Scanner
from otel_ofu.mfu.logs import tail as tail_module
from otel_ofu.mfu.logs.blocks import MAX_LINE_BYTES, LineBlocks
from otel_ofu.mfu.logs.tail import MAX_FILES, Start
from otel_ofu.mfu.report import JobReport
from otel_ofu.model.clock import SystemClock, VirtualClock
from tests.waiting import wait_until

Make = Callable[..., "Desk"]


def line(step_ms: int) -> str:
    return f"iter {step_ms}: loss 2.0000, time {step_ms}.00ms, mfu 38.21%\n"


def steps(reports: list[JobReport]) -> list[int]:
    """The step times in ms, by which lines are told apart here."""
    return [round((r.step_s or 0.0) * 1e3) for r in reports]


class Desk:
    """A follower on virtual time, and looks that let it rescan."""

    def __init__(self, *paths: Path | str, start: Start = "end", job: str = "") -> None:
        self.clock = VirtualClock(1000.0)
        files = [PathTemplate(str(path)) for path in paths]
        followed = FollowedLog(Scanner(), files=files, job=job, start=start)
        self.follower = Follower([followed], self.clock)

    def look(self, seconds: float = 11.0) -> list[JobReport]:
        self.clock.advance(seconds)
        return self.follower.poll(self.clock.now_s())


@pytest.fixture
def desk() -> Iterator[Make]:
    made: list[Desk] = []

    def make(*paths: Path | str, start: Start = "end", job: str = "") -> Desk:
        made.append(Desk(*paths, start=start, job=job))
        return made[-1]

    yield make
    for one in made:
        one.follower.close()
        one.follower.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(line(1), "utf-8")
    return path


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as stream:
        stream.write(text.encode() if isinstance(text, str) else text)


def test_lines_added_after_the_first_look_are_read_once(log: Path, desk: Make) -> None:
    d = desk(log)
    assert d.look() == []
    append(log, line(2) + line(3)[:20])
    (report,) = d.look()
    assert (report.source, report.time_s, report.line_number) == (str(log), 1022.0, 1)
    assert steps(d.look()) == []
    append(log, line(3)[20:])
    assert steps(d.look()) == [3]
    assert d.follower.problems() == {}


def test_a_file_can_be_read_from_its_beginning_with_true_line_numbers(
    log: Path, desk: Make
) -> None:
    append(log, "noise\n" + line(2))
    reports = desk(log, start="beginning").look()
    assert [(r.line_number, step) for r, step in zip(reports, steps(reports), strict=True)] == [
        (1, 1),
        (3, 2),
    ]


def test_a_file_that_is_not_there_yet_is_said_and_then_read_whole(
    tmp_path: Path, desk: Make
) -> None:
    path = tmp_path / "later.log"
    d = desk(path)
    assert d.look() == []
    assert d.follower.problems() == {str(path): "cannot be read: No such file or directory"}
    path.write_text(line(1), "utf-8")
    assert steps(d.look(1.0)) == [1]
    assert d.follower.problems() == {}


def test_rotation_by_rename_loses_nothing_and_repeats_nothing(log: Path, desk: Make) -> None:
    d = desk(log)
    d.look()
    append(log, line(2))
    log.rename(log.with_suffix(".log.1"))
    # The writer has not noticed: it still writes to the renamed file.
    append(log.with_suffix(".log.1"), line(3))
    assert steps(d.look()) == [2, 3]
    append(log.with_suffix(".log.1"), line(4))
    log.write_text(line(5), "utf-8")
    reports = d.look()
    assert steps(reports) == [4, 5]
    assert reports[-1].line_number == 1
    assert d.follower.counts.rotations == 1


def test_a_last_line_without_an_end_is_read_when_its_file_is_left(log: Path, desk: Make) -> None:
    d = desk(log)
    d.look()
    append(log, line(2).rstrip("\n"))
    assert d.look() == []
    log.rename(log.with_suffix(".1"))
    log.write_text(line(3), "utf-8")
    assert steps(d.look()) == [2, 3]


def test_a_rotated_file_that_a_glob_finds_again_is_not_read_twice(log: Path, desk: Make) -> None:
    d = desk(log.parent / "train.log*")
    d.look()
    append(log, line(2))
    assert steps(d.look(1.0)) == [2]
    log.rename(log.with_suffix(".log.1"))
    log.write_text(line(3), "utf-8")
    assert steps(d.look(1.0)) == [3]
    append(log.with_suffix(".log.1"), line(4))
    assert steps(d.look()) == [4]
    assert steps(d.look()) == []


def test_copy_and_truncate_starts_at_the_beginning(log: Path, desk: Make) -> None:
    d = desk(log)
    append(log, line(1) * 3)
    d.look()
    os.truncate(log, 0)
    append(log, line(2))
    assert steps(d.look()) == [2]
    assert d.follower.counts.truncations == 1


def test_a_file_written_anew_and_longer_is_seen_by_its_beginning(log: Path, desk: Make) -> None:
    d = desk(log)
    d.look()
    log.write_text("another run\n" + line(7) * 5, "utf-8")
    assert steps(d.look()) == [7] * 5


def test_a_link_that_is_pointed_elsewhere_is_followed(tmp_path: Path, desk: Make) -> None:
    first, second, link = (tmp_path / name for name in ("run1.log", "run2.log", "latest"))
    first.write_text(line(1), "utf-8")
    second.write_text(line(2), "utf-8")
    link.symlink_to(first)
    d = desk(link)
    d.look()
    append(first, line(3))
    link.unlink()
    link.symlink_to(second)
    assert steps(d.look()) == [3, 2]


def test_two_paths_to_one_file_count_once(tmp_path: Path, desk: Make) -> None:
    first, link = tmp_path / "run1.log", tmp_path / "latest"
    first.write_text("", "utf-8")
    link.symlink_to(first)
    d = desk(link, tmp_path / "run*.log")
    d.look()
    append(first, line(2))
    assert steps(d.look()) == [2]
    second = tmp_path / "run2.log"
    second.write_text(line(3), "utf-8")
    assert steps(d.look()) == [3]
    link.unlink()
    link.symlink_to(second)
    append(second, line(4))
    append(first, line(5))
    assert sorted(steps(d.look()) + steps(d.look())) == [4, 5]


def test_a_glob_finds_new_files_and_forgets_removed_ones(tmp_path: Path, desk: Make) -> None:
    d = desk(tmp_path / "*.out")
    assert d.look() == []
    a, b = tmp_path / "a.out", tmp_path / "b.out"
    a.write_text(line(1), "utf-8")
    b.write_text(line(2), "utf-8")
    assert steps(d.look()) == [1, 2]
    a.unlink()
    d.look()
    d.look()
    assert d.follower.counts.sources == 1
    assert d.follower.problems() == {}


def test_a_part_of_the_path_names_the_job(tmp_path: Path, desk: Make) -> None:
    for job in ("4711", "4712"):
        (tmp_path / f"slurm-{job}_0").mkdir()
        (tmp_path / f"slurm-{job}_0" / "out.log").write_text(line(int(job)), "utf-8")
    d = desk(tmp_path / "slurm-{job}_*" / "*.log", start="beginning", job="otherwise")
    assert [(r.job, step) for r, step in [(r, steps([r])[0]) for r in d.look()]] == [
        ("4711", 4711),
        ("4712", 4712),
    ]


@pytest.mark.parametrize(
    ("template", "path", "job"),
    [
        ("/logs/{job}/out", "/logs/j7/out", "j7"),
        ("/logs/**/{job}.out", "/logs/a/b/7.out", "7"),
        ("/logs/**/{job}.out", "/logs/7.out", "7"),
        ("/l/job-{job}-?.[!x]*", "/l/job-a-b-1.log", "a-b"),
        ("/l/fixed*.out", "/l/fixed1.out", ""),
    ],
)
def test_templates_name_jobs(template: str, path: str, job: str) -> None:
    assert PathTemplate(template)._job(path) == job


@pytest.mark.parametrize("text", ["", "relative.log", "/a/{job}/{job}", "/a\0b"])
def test_paths_that_cannot_be_followed_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: an absolute path"):
        PathTemplate(text)


@contextmanager
def forbidden(path: Path) -> Iterator[None]:
    """The file cannot be read; root, who may read everything, is somebody else meanwhile."""
    mode, user = path.stat().st_mode, os.geteuid()
    path.chmod(0)
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        path.chmod(mode)


def test_permission_denied_is_said_and_the_file_read_when_allowed(log: Path, desk: Make) -> None:
    d = desk(log)
    with forbidden(log):
        d.look()
        assert d.follower.problems() == {str(log): "cannot be read: Permission denied"}
    assert steps(d.look()) == [1]
    assert d.follower.problems() == {}


def test_what_is_no_file_is_refused_without_blocking(tmp_path: Path, desk: Make) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    d = desk(tmp_path / "pipe", tmp_path, tmp_path / "loop", "/dev/zero")
    assert d.look() == []
    assert d.follower.problems() == {
        str(tmp_path / "pipe"): "is not a regular file",
        str(tmp_path): "is not a regular file",
        str(tmp_path / "loop"): "cannot be read: Too many levels of symbolic links",
        "/dev/zero": "is not a regular file",
    }


def test_a_file_moved_away_for_good_is_let_go(log: Path, desk: Make) -> None:
    d = desk(log.parent / "*.log")
    d.look()
    away = log.with_suffix(".archived")
    log.rename(away)
    append(away, line(2))
    assert steps(d.look()) == [2]
    for _ in range(tail_module.MISSED_POLLS + 2):
        assert d.look(1.0) == []
    assert d.follower.counts.sources == 0


def test_a_removed_file_is_closed_at_once(log: Path, desk: Make) -> None:
    d = desk(log)
    d.look()
    append(log, line(2))
    log.unlink()
    assert steps(d.look()) == [2]
    assert d.follower.problems() == {str(log): "cannot be read: No such file or directory"}
    log.write_text(line(3), "utf-8")
    assert steps(d.look()) == [3]


def test_a_parent_folder_that_becomes_a_file_is_said(tmp_path: Path, desk: Make) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a.log").write_text(line(1), "utf-8")
    d = desk(folder / "a.log")
    d.look()
    (folder / "a.log").unlink()
    folder.rmdir()
    folder.write_text("", "utf-8")
    d.look()
    assert d.follower.problems() == {str(folder / "a.log"): "cannot be checked: Not a directory"}


def test_binary_rubbish_is_survived(log: Path, desk: Make) -> None:
    d = desk(log)
    d.look()
    append(log, bytes(range(256)) * 40 + b"\n" + line(2).encode() + b"\x00\xff\xfe\n")
    assert steps(d.look()) == [2]


def test_a_line_of_ten_megabytes_is_dropped_and_the_next_is_read(log: Path, desk: Make) -> None:
    d = desk(log)
    d.look()
    append(log, b"x" * 10_000_000 + line(2).encode() + line(3).encode())
    reports = d.look() + d.look()
    assert steps(reports) == [3]
    assert d.follower.counts.long_lines == 1
    assert reports[0].line_number == 2


def test_an_unfinished_line_never_holds_more_than_its_limit() -> None:
    blocks = LineBlocks()
    for _ in range(100):
        assert blocks.feed(b"y" * 50_000) is None
        assert len(blocks._rest) <= MAX_LINE_BYTES
    block = blocks.feed(b"\nend\n")
    assert block is not None
    assert block.text == b"\nend\n"
    assert blocks.long_lines == 1


def test_a_backlog_is_read_in_bounded_looks_and_skipped_beyond_its_limit(
    log: Path, desk: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "MAX_BACKLOG_BYTES", 10_000_000)
    d = desk(log)
    d.look()
    noise = b"n" * 999 + b"\n"
    append(log, noise * 15_000 + line(2).encode())
    assert steps(d.look()) == []
    assert steps(d.look()) == [2]
    assert 5_000_000 <= d.follower.counts.skipped_bytes <= 5_001_000
    assert d.follower.counts.bytes <= 10_001_000


def test_more_files_than_allowed_are_told(tmp_path: Path, desk: Make) -> None:
    for i in range(MAX_FILES + 1):
        (tmp_path / f"{i}.log").touch()
    d = desk(tmp_path / "*.log")
    d.look()
    assert d.follower.counts.sources == MAX_FILES
    assert d.follower.problems() == {
        "logs": f"more than {MAX_FILES} files; the rest is not followed"
    }


def command(code: str) -> list[str]:
    return [sys.executable, "-u", "-c", code]


def wait_for(look: Callable[[], list[JobReport]], count: int) -> list[JobReport]:
    """Looks until so many reports are there; a real process needs real time."""
    found: list[JobReport] = []

    def enough() -> bool:
        found.extend(look())
        return len(found) >= count

    wait_until(enough, f"{count} reports")
    return found


def test_a_commands_output_is_read_while_it_runs_and_it_ends_with_the_follower() -> None:
    code = f"import os,time; print({line(5)!r} + str(os.getpid()), flush=True); time.sleep(3600)"
    follower = Follower([FollowedLog(Scanner(), command=command(code), job="j")], SystemClock())
    (report,) = wait_for(lambda: follower.poll(1.0), 1)
    assert report.source.startswith("command: ")
    assert (report.job, steps([report])) == ("j", [5])
    process = next(iter(follower._streams.values())).tail._process  # type: ignore[union-attr]
    assert process is not None
    follower.close()
    assert process.returncode is not None


def test_a_command_that_ended_is_told_and_started_again_later() -> None:
    clock = VirtualClock()
    argv = command(f"print({line(6).rstrip()!r}, end='')")
    follower = Follower([FollowedLog(Scanner(), command=argv)], clock)
    assert steps(wait_for(lambda: follower.poll(1.0), 1)) == [6]
    (problem,) = follower.problems().values()
    assert problem in (
        "ended with 0; tried again, later each time",
        "closed its output; tried again, later each time",
    )
    assert follower.poll(2.0) == []
    clock.advance(10.0)
    assert steps(wait_for(lambda: follower.poll(3.0), 1)) == [6]
    follower.close()


def test_a_command_that_is_not_there_is_told_in_one_text_however_often_it_is_tried() -> None:
    clock = VirtualClock()
    follower = Follower([FollowedLog(Scanner(), command=["/nonexistent/tail"])], clock)
    for pause in (10, 20, 40):
        assert follower.poll(0.0) == []
        (problem,) = follower.problems().values()
        why = "cannot be started: No such file or directory"
        assert problem == f"{why}; tried again, later each time"
        clock.advance(float(pause))
    follower.close()


ACTIONS = st.lists(
    st.sampled_from(["add", "half", "rotate", "link", "look", "wait"]), min_size=1, max_size=40
)


@given(ACTIONS, st.sampled_from(["train.log", "train.log*", "*"]))
def test_whatever_happens_each_line_is_read_exactly_once(actions: list[str], path: str) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        log, number, half = folder / "train.log", 0, ""
        log.touch()
        one = Desk(folder / path)
        read = steps(one.look())
        for action in actions:
            if action in ("add", "half"):
                number += 1
                whole = half + line(number)
                half = whole[-30:] if action == "half" else ""
                append(log, whole.removesuffix(half) if half else whole)
            elif action == "rotate" and not half:
                # Looked at first: of two rotations between looks, only wildcards see both.
                read += steps(one.look(1.0))
                log.rename(folder / f"train.log.{number}.{len(list(folder.iterdir()))}")
                log.touch()
            elif action == "link" and not (folder / "train.log.link").exists():
                (folder / "train.log.link").symlink_to(log)
            else:
                read += steps(one.look(1.0 if action == "look" else 11.0))
        append(log, half)
        read += steps(one.look()) + steps(one.look())
        one.follower.close()
        assert sorted(read) == list(range(1, number + 1))
