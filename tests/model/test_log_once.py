from __future__ import annotations

import logging

import pytest

from otel_ofu.model.log_once import MAX_CAUSES, CountedLogOnce, LogOnce

LOG = logging.getLogger("test.troubles")


def test_a_cause_is_told_once_and_counted_each_time(caplog: pytest.LogCaptureFixture) -> None:
    troubles = CountedLogOnce(LOG, "parts: ")
    for _ in range(2):
        troubles.begin()
        troubles.note("denied", "this one")
        troubles.note("denied", "this one")
        troubles.note("late", "that one")
    assert caplog.messages == ["parts: this one", "parts: that one"]
    assert troubles.problems() == ("this one (2 times)", "that one")
    assert troubles.counts() == {"denied": 4, "late": 2}


def test_what_is_over_is_no_problem_any_more_and_stays_counted() -> None:
    troubles = CountedLogOnce(LOG)
    troubles.note("denied", "this one")
    troubles.begin()
    assert (troubles.problems(), troubles.counts()) == ((), {"denied": 1})


def test_causes_without_end_fill_neither_the_log_nor_the_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    once = LogOnce(LOG, level=logging.ERROR)
    for number in range(MAX_CAUSES + 5):
        once.log(str(number))
    assert len(caplog.records) == MAX_CAUSES
    assert {record.levelname for record in caplog.records} == {"ERROR"}
