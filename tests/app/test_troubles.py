"""How often a trouble is logged and counted, and under how many targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from otel_ofu.app.troubles import GOOD_READS, MOST_CAUSES, MOST_TARGETS, OTHER, TroubleLog
from otel_ofu.model import Trouble


class Counts:
    def __init__(self) -> None:
        self.targets: list[str] = []
        self.up: Mapping[str, bool] = {}

    def troubled(self, source: str, target: str, reason: str) -> None:
        self.targets.append(target)

    def answered(self, source: str, targets: Mapping[str, bool]) -> None:
        self.up = targets


REFUSED = Trouble("b", "failed", "connection refused")
TARGETS = {"a": True, "b": False}


def reads(
    log: TroubleLog, rounds: Sequence[Sequence[Trouble]], targets: Mapping[str, bool] = {}
) -> None:
    for troubles in rounds:
        log.update("scrape", troubles, targets, up=True)


def test_a_trouble_that_comes_and_goes_is_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    reads(TroubleLog(Counts()), [[REFUSED], [], [REFUSED], [], [REFUSED]])
    assert caplog.messages == ["scrape: b: connection refused"]


def test_a_trouble_that_came_back_after_its_end_is_logged_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    reads(TroubleLog(Counts()), [[REFUSED], *[[]] * GOOD_READS, [REFUSED]])
    assert caplog.messages == [
        "scrape: b: connection refused",
        "resolved: scrape: b: connection refused",
        "scrape: b: connection refused",
    ]


def test_a_target_that_does_not_answer_ends_no_trouble(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log = TroubleLog(Counts())
    other = Trouble("b", "malformed", "line 1")
    reads(log, [[other]])
    reads(log, [[REFUSED]] * 5, TARGETS)
    assert "resolved" not in caplog.text


def test_sources_end_their_own_troubles_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    log = TroubleLog(Counts())
    log.update("scrape", [REFUSED], {}, up=True)
    for _ in range(5):
        log.update("nvml", [], {}, up=True)
    assert "resolved" not in caplog.text


def test_targets_in_the_metrics_are_bounded_over_the_life_of_the_agent() -> None:
    counts = Counts()
    log = TroubleLog(counts)
    for n in range(MOST_TARGETS + 2):
        log.update("scrape", [Trouble(f"t{n}", "failed")], {}, up=True)
    assert counts.targets[-3:] == [f"t{MOST_TARGETS - 1}", OTHER, OTHER]
    log.update("scrape", [], {"t0": True, "new": False}, up=True)
    assert counts.up == {"t0": True, OTHER: False}


def test_more_causes_than_can_be_remembered_are_counted_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counts = Counts()
    reads(TroubleLog(counts), [[Trouble(f"t{n}", "failed") for n in range(MOST_CAUSES + 9)]])
    assert len(caplog.messages) == MOST_CAUSES
    assert len(counts.targets) == MOST_CAUSES + 9
