"""Rules on the past: what would have fired, and what another version would."""

from __future__ import annotations

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.backtest import Episode, Tick, backtest, differences
from otel_ofu.rules.files import RuleSet, rules_from_text
from otel_ofu.rules.files.cases import samples
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.verdicts import explain
from otel_ofu.store import Store

REGISTRY = load_registry()
START_S = 1_728_000_000.0


def rules(threshold: str = "15%", name: str = "LowOfu", for_: str = "1m") -> RuleSet:
    text = f"""
groups:
  - name: g
    rules:
      - {{alert: {name}, each: gpu, expr: "avg(ofu, 1m) < {threshold}", for: {for_},
         labels: {{severity: info}}}}
"""
    return rules_from_text(text, REGISTRY)


def recording(*series: str, step_s: float = 10.0) -> list[Tick]:
    ticks: list[Tick] = []
    for number, values in enumerate(zip(*map(samples, series), strict=True)):
        now_s = START_S + number * step_s
        window = Window(now_s - step_s, now_s)
        entities = [Entity("gpu", f"g{i}", {"hw.id": f"g{i}"}) for i in range(len(values))]
        seen = [
            Observation(entity, window, {"ofu": value} if value == value else {})  # noqa: PLR0124
            for entity, value in zip(entities, values, strict=True)
        ]
        ticks.append((now_s, seen))
    return ticks


def reason(episode: Episode) -> str:
    return episode.ended.reason if episode.ended else ""


def test_it_says_what_would_have_fired_when_and_for_how_long() -> None:
    seen: list[float] = []
    ticks = recording("0.5x10 0.1x30 0.5x20", "0.5x30 0.1x30")
    (past,) = backtest(iter(ticks), [rules()], REGISTRY, progress=seen.append)
    assert [
        (e.entity, e.opened_s - START_S, e.ended.reason if e.ended else "") for e in past.episodes
    ] == [
        ("g0", 210.0, "recovered"),
        ("g1", 420.0, ""),
    ]
    first, second = past.episodes
    assert (first.lasted_s(past.end_s), second.lasted_s(past.end_s)) == (210.0, 170.0)
    assert first.opened.value == pytest.approx(0.1)
    assert (past.ticks, past.start_s, past.end_s) == (60, START_S, START_S + 590)
    assert past.gpu_days == pytest.approx(2 * 600 / 86_400)
    assert seen == [now_s for now_s, _ in ticks]


def test_two_versions_are_compared_on_the_same_past() -> None:
    ticks = recording("0.5x10 0.1x30 0.5x20", "0.5x10 0.17x30 0.5x20", "0.1x60")
    before, after = backtest(ticks, [rules(), rules("20%", for_="2m")], REGISTRY)
    found = {(d.before or d.after).entity: d for d in differences(before, after)}  # type: ignore[union-attr] # one is there
    assert set(found) == {"g0", "g1", "g2"}
    assert found["g1"].before is None
    late = found["g2"]
    assert late.before is not None
    assert late.after is not None
    assert late.after.opened_s - late.before.opened_s == 60
    assert differences(before, before) == []
    (other,) = backtest(ticks, [rules(name="X")], REGISTRY)
    both = [(d.before is not None, d.after is not None) for d in differences(before, other)]
    assert both == [(True, False)] * 2 + [(False, True)] * 2


def test_a_recording_of_nothing_and_one_with_a_hole_are_judged() -> None:
    (nothing,) = backtest([], [rules()], REGISTRY)
    assert (nothing.ticks, nothing.episodes) == (0, [])
    early, late = recording("0.1x20"), recording("0.1x20")
    shifted = [
        (now_s + 30 * 86_400, [_moved(o, 30 * 86_400) for o in seen]) for now_s, seen in late
    ]
    (past,) = backtest([*early, *shifted], [rules()], REGISTRY)
    assert [reason(e) for e in past.episodes] == ["no_data", ""]
    assert past.rounds < 1_000


def _moved(seen: Observation, by_s: float) -> Observation:
    window = Window(seen.window.start_s + by_s, seen.window.end_s + by_s)
    return Observation(seen.entity, window, seen.values)


def test_a_rule_is_explained_part_by_part() -> None:
    clock = VirtualClock(START_S)
    store = Store(REGISTRY, clock=clock)
    for now_s, seen in recording("0.1x4"):
        clock.set(now_s)
        store.write(seen)
    (rule,) = rules()
    (told,) = explain(NumpyEngine(store), rule, "g0", START_S + 30)
    assert told.title == "expr"
    assert [(part.text, part.depth) for part in told.parts] == [
        ("avg(ofu, 1m) < 15%", 0),
        ("avg(ofu, 1m)", 1),
        ("15%", 1),
    ]
    assert told.parts[0].verdict == 1
    assert told.parts[1].value == pytest.approx(0.1)
    assert told.evidence[0].coverage == pytest.approx(4 / 6)
    with pytest.raises(KeyError):
        explain(NumpyEngine(store), rule, "nobody", START_S)
