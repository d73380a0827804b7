"""Labelled stories through the whole: the right cause, in time, and nobody woken for nothing."""

from __future__ import annotations

from functools import cache

import pytest

from otel_ofu.sources.demo import load_library
from tests.scenarios.healthy import fleet
from tests.scenarios.report import Judged, confusion, judge, share, table
from tests.scenarios.story import Story, stories
from tests.scenarios.world import causes, live

FAST = [story for story in stories() if story.fast]
SLOW = [story for story in stories() if not story.fast]
FIRST, AMONG_THREE = 0.90, 0.97
PAGES_PER_GPU_DAY = 1 / 1_000


@cache
def judged(name: str) -> Judged:
    (story,) = (story for story in stories() if story.name == name)
    return judge(live(story))


def check(story: Story) -> None:
    found = judged(story.name)
    assert found.among_three, found
    assert found.in_time, found
    assert not (story.quiet and found.pages), found


@pytest.mark.parametrize("story", FAST, ids=lambda story: story.name)
def test_a_story_is_told_with_its_cause_first(story: Story) -> None:
    check(story)
    assert judged(story.name).right or not story.causes, judged(story.name)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("story", SLOW, ids=lambda story: story.name)
def test_a_longer_story_is_told_with_its_cause_among_three(story: Story) -> None:
    check(story)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_suite_as_a_whole_meets_its_goals() -> None:
    every = [judged(story.name) for story in stories()]
    report = "\n".join(table(every))
    assert share(every) >= FIRST, report
    assert share(every, among_three=True) >= AMONG_THREE, report


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_healthy_fleet_wakes_nobody() -> None:
    lived = [live(story) for story in fleet(100)]
    days, pages = sum(one.gpu_days for one in lived), [p for one in lived for p in one.pages()]
    assert len(pages) <= PAGES_PER_GPU_DAY * days, pages


def test_there_are_stories_of_every_kind() -> None:
    every = stories()
    assert len(every) >= 40
    assert len({story.name for story in every}) == len(every)
    assert {story.noise for story in every} >= {0.02, 0.04}
    assert {story.gpus for story in every} >= {8, 64, 512}
    assert any(len(story.causes) > 1 for story in every)
    assert any(story.hide for story in every)
    assert any(story.gaps for story in every)
    assert any(not story.causes and story.quiet for story in every)


@pytest.mark.parametrize("story", stories(), ids=lambda story: story.name)
def test_a_story_names_troubles_and_causes_that_there_are(story: Story) -> None:
    library = load_library().troubles
    assert {span.trouble for span in story.spans} <= library.keys()
    assert story.right <= causes().names
    assert bool(story.accept) == bool(story.indistinct)


def test_the_table_counts_what_was_right_and_what_was_not() -> None:
    good = Story(name="a", causes=["thermal"])
    bad = Story(name="b", causes=["hang"], within_s=60)
    every = [
        Judged(good, "thermal", among_three=True, delay_s=120.0, pages=1),
        Judged(bad, "thermal", among_three=True, delay_s=120.0, pages=1),
    ]
    assert share(every) == 0.5
    assert share(every, among_three=True) == 1
    assert "hang                     thermal 1" in list(confusion(every))
    assert any("LATE" in line for line in table(every))
