"""Rules held against what was observed."""

from __future__ import annotations

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Entity
from otel_ofu.rules.files import RuleSet, rules_from_text
from otel_ofu.rules.history_check import HistoryCheck
from otel_ofu.rules.numpy.engine import NumpyEngine
from tests.store.fleets import START_S, Bench, gpu, seen

REGISTRY = load_registry()


def rules(expr: str, each: str = "gpu") -> RuleSet:
    rule = f'{{alert: A, each: {each}, expr: "{expr}"}}'
    text = f"groups:\n  - name: g\n    rules:\n      - {rule}\n"
    return rules_from_text(text, REGISTRY)


def fleet(**ofu: float) -> Bench:
    """GPUs of a job, each with a steady OFU, over ten minutes."""
    bench = Bench()
    for at_s in range(10, 610, 10):
        bench.write(*(seen(gpu(name, "j"), at_s, {"ofu": value}) for name, value in ofu.items()))
    return bench


def doubts(set_: RuleSet, bench: Bench, *instants: int) -> list[str]:
    check = HistoryCheck(set_, REGISTRY)
    for at_s in instants or (600,):
        check.add(NumpyEngine(bench.store), START_S + at_s)
    return [str(problem) for problem in check.problems()]


def test_what_holds_for_most_of_a_fleet_is_doubtful() -> None:
    bench = fleet(a=0.1, b=0.1, c=0.1, d=0.5)
    assert doubts(rules("ofu < 20%"), bench) == ["rules.yaml:4:9: A: true for 75% of 4 GPUs now"]
    assert doubts(rules("ofu > 40%"), bench) == []
    assert doubts(rules("ofu > 60%"), bench) == []
    (all_,) = doubts(rules("gpus.min(avg(ofu, 5m)) < 20%", "job"), bench)
    assert all_.endswith("true for 100% of 1 job now")


def test_what_is_never_known_is_told_with_the_metrics_that_have_no_samples() -> None:
    bench = fleet(a=0.1, b=0.5)
    (told,) = doubts(rules("ofu > 1% and power > 100 and avg(ofu_applicable, 10m) > 0"), bench)
    assert told.endswith("never known: power, ofu_applicable have no samples here")
    (told,) = doubts(rules("job.mfu < 20%"), bench)
    assert told.endswith("never known: mfu has no samples here")
    (told,) = doubts(rules("avg(ofu, 1h) < 20%"), bench)
    assert told.endswith("never known: too few samples for its windows, which reach back 1h")
    (told,) = doubts(rules("cpu_steal > 5%", "node"), Bench())
    assert told.endswith("never known: there is no node here")
    optional = "ofu < 9% and (count(ofu_applicable, 5m) == 0 or avg(ofu_applicable, 5m) > 50%)"
    assert doubts(rules(optional), bench) == []


def test_events_that_did_not_happen_are_no_missing_samples() -> None:
    assert doubts(rules("increase(xid:79, 5m) > 0"), fleet(a=0.1)) == []


def test_what_was_known_once_is_not_never_known() -> None:
    bench = fleet(a=0.5)
    bench.write(seen(Entity("gpu", "z", {}), 900, {"power": 1.0}))
    (told,) = doubts(rules("ofu < 20%"), bench, 900)
    assert "never known" in told
    assert doubts(rules("ofu < 20%"), bench, 600, 900) == []
