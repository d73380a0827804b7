"""Log sources as a configuration gives them: all mistakes at once, each with its place."""

from __future__ import annotations

from pathlib import Path

from otel_ofu.files.settings import CheckContext, mistakes
from otel_ofu.mfu.logs import build_follower
from otel_ofu.mfu.settings import LogSettings, MfuSettings
from otel_ofu.model.clock import VirtualClock


def test_a_source_is_followed_with_its_own_patterns(tmp_path: Path) -> None:
    log = tmp_path / "run-7.log"
    log.write_text("speed 3\niter 1: loss 2.0, time 5.00ms, mfu 10.00%\nTFLOPs per sec per GPU=2\n")
    source = LogSettings(
        files=[str(tmp_path / "run-{job}.log")],
        start="beginning",
        frameworks=["nanogpt"],
        patterns=[r"speed (?P<step_s>\d)"],
    )
    follower = build_follower([source], VirtualClock())
    reports = follower.poll(1.0)
    follower.close()
    assert [(r.framework, r.job) for r in reports] == [("pattern", "7"), ("nanogpt", "7")]


def test_every_mistake_is_told_with_its_place() -> None:
    sources = [
        LogSettings(files=["/logs/a.log"]),
        LogSettings(
            files=["relative", "/ok"], patterns=["ok (?P<mfu>x)", "("], frameworks=["caffe"]
        ),
        LogSettings(),
        LogSettings(files=["/ok"], command=["tail"]),
    ]
    found = list(mistakes(MfuSettings(logs=sources), CheckContext(0.0)))
    assert [steps[1:] for steps, _ in found] == [
        (1, "files", 0),
        (1, "frameworks", 0),
        (1, "patterns", 1),
        (2,),
        (3,),
    ]
    assert found[0][1].startswith("'relative': allowed: an absolute path")
    assert found[-1][1] == "allowed: either `files` or `command`"


def test_nothing_to_follow_is_nothing_to_do() -> None:
    follower = build_follower([], VirtualClock())
    assert follower.poll(0.0) == []
    assert follower.counts.sources == 0
