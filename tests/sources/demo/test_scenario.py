import pytest

from otel_ofu.model.errors import ConfigError
from otel_ofu.sources.demo import (
    DemoSource,
    QuantityChange,
    Scenario,
    TroubleSpan,
    load_library,
    named,
)
from otel_ofu.sources.demo.job import FIELD
from otel_ofu.sources.demo.scenario import ScenarioTimeline


def story(*spans: TroubleSpan, repeat_s: float | None = None, gpus: int = 4) -> ScenarioTimeline:
    scenario = Scenario(spans=list(spans), repeat_s=repeat_s)
    return ScenarioTimeline(scenario, gpus, load_library().troubles)


def names(told: ScenarioTimeline, at_s: float) -> list[str]:
    return [fact.trouble for fact in told.facts(at_s)]


def test_a_spell_begins_at_its_start_and_is_over_at_its_end() -> None:
    told = story(TroubleSpan(trouble="idle", start_s=10, end_s=20))
    assert [names(told, t) for t in (9.9, 10, 19.9, 20)] == [[], ["idle"], ["idle"], []]


def test_a_periodic_spell_holds_in_the_first_share_of_each_period() -> None:
    told = story(TroubleSpan(trouble="checkpoint", start_s=100, period_s=50, share=0.2))
    assert [bool(names(told, t)) for t in (100, 109, 110, 149, 150, 161)] == [
        True, True, False, False, True, False,
    ]  # fmt: skip


def test_a_story_that_repeats_tells_itself_again() -> None:
    told = story(TroubleSpan(trouble="idle", start_s=10, end_s=20), repeat_s=100)
    assert names(told, 1015) == ["idle"]
    assert names(told, 1025) == []


def test_a_trouble_touches_the_gpus_that_it_names_and_no_others() -> None:
    told = story(TroubleSpan(trouble="clock_locked", start_s=0, gpus=[2]))
    assert told.demand(5)[FIELD["clock_lock_hz"]].tolist() == [1.98e9, 1.98e9, 9e8, 1.98e9]
    assert told.facts(5)[0].gpus == (2,)


def test_two_troubles_at_once_add_up() -> None:
    told = story(
        TroubleSpan(trouble="debug_flag", start_s=0), TroubleSpan(trouble="data_loader", start_s=0)
    )
    demand = told.demand(1)
    assert demand[FIELD["check_s"], 0] > 1
    assert demand[FIELD["input_s"], 0] > 1
    assert names(told, 1) == ["debug_flag", "data_loader"]


def test_a_spell_may_be_milder_than_its_trouble() -> None:
    told = story(
        TroubleSpan(
            trouble="idle", start_s=0, changes={"running": QuantityChange(scale=1, add=-0.5)}
        )
    )
    assert told.demand(0)[FIELD["running"]].tolist() == [0.5] * 4


def test_facts_carry_the_flags_that_the_processes_hold() -> None:
    (fact,) = DemoSource("debug-flag", start_s=1000).facts_at(1180)
    assert (fact.cause, fact.flags) == ("debug_flag", {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})


@pytest.mark.parametrize("name", load_library().scenarios)
def test_every_shipped_scenario_plays_on_eight_gpus(name: str) -> None:
    assert len(DemoSource(name).read(100)) == 8


def test_the_tour_shows_every_trouble_that_has_a_story_of_its_own() -> None:
    library = load_library()
    told = ScenarioTimeline(named("tour"), 8, library.troubles)
    seen = {fact.cause for t in range(0, 12600, 60) for fact in told.facts(t)}
    played = {span.trouble for story in library.scenarios.values() for span in story.spans}
    assert seen == {library.troubles[name].cause for name in played} - {"healthy"}


@pytest.mark.parametrize("name", load_library().troubles)
def test_every_trouble_changes_the_job_as_it_says(name: str) -> None:
    told = story(TroubleSpan(trouble=name, start_s=10))
    assert (told.demand(5) != told.demand(15)).any()
    assert told.facts(15)[0].trouble == name


def test_an_unknown_scenario_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="no scenario 'helthy'; known: healthy, "):
        DemoSource("helthy")


@pytest.mark.parametrize(
    ("span", "message"),
    [
        (TroubleSpan(trouble="gremlins", start_s=0), "no such trouble; known: debug_flag"),
        (TroubleSpan(trouble="idle", start_s=0, gpus=[4]), "no GPU 4 among 4"),
        (TroubleSpan(trouble="idle", start_s=0, period_s=0), "period_s 0; above 0"),
        (
            TroubleSpan(trouble="idle", start_s=0, changes={"mood": QuantityChange()}),
            "no field 'mood'",
        ),
    ],
)
def test_a_spell_that_cannot_be_is_refused(span: TroubleSpan, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        story(span)


def test_a_noise_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="noise 1"):
        DemoSource(Scenario(spans=[], noise=1.0))
