from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import TypedDict, Unpack

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.model import Entity, EntityKind
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import DataLimits, Expression
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.rules.verdicts import CLEAR, HOLDS, UNKNOWN, Condition, EntityComparison
from otel_ofu.store import Retention
from tests.properties import examples
from tests.rules.oracle import Gpu, Near, Oracle
from tests.rules.trees import COUNTER, FLAG, GAUGES, conditions
from tests.store.fleets import START_S, Bench, gpu, seen

REGISTRY = load_registry()
BUCKETS = 45
VERDICT = {True: HOLDS, False: CLEAR, None: UNKNOWN}


class Demands(TypedDict, total=False):
    min_coverage: float
    min_peers: int


def judge(
    bench: Bench, text: str, at_s: float, each: EntityKind = "gpu", **demands: Unpack[Demands]
) -> dict[str, int]:
    """The verdict of every entity on one condition."""
    question = ask(text, each, **demands)
    answer = NumpyEngine(bench.store).round([question], START_S + at_s)
    (judgement,) = answer.judgements
    entities = answer.rosters[each].entities
    return {
        entity.id: int(judgement.verdicts[column])
        for column, entity in enumerate(entities)
        if entity is not None
    }


def ask(text: str, each: EntityKind = "gpu", **demands: Unpack[Demands]) -> Condition:
    return Condition(parse_condition(text, each, with_parents()), DataLimits(**demands))


def observed(
    bench: Bench, text: str, at_s: float, **demands: Unpack[Demands]
) -> list[EntityComparison]:
    """The evidence for the first GPU."""
    answer = NumpyEngine(bench.store).round([ask(text, **demands)], START_S + at_s)
    return list(answer.judgements[0].at(0))


def steady(values: Mapping[str, float], until_s: int = 600, **gpus: str) -> Bench:
    """GPUs (name = job) that show the same values every 10 s."""
    bench = Bench(Retention(depth_s=3600, minutes={("gpu", "ofu"): 86_400.0}))
    for at_s in range(10, until_s + 10, 10):
        bench.write(*(seen(gpu(n, j), at_s, values) for n, j in (gpus or {"a": ""}).items()))
    return bench


class Fleet:
    """A random fleet, in the store and for the oracle."""

    def __init__(self, random: Random) -> None:
        self.bench = Bench()
        self.first = self.bench.store.bucket(START_S)
        self.gpus = {f"g{i}": self._gpu(random) for i in range(random.randint(1, 9))}
        for bucket in range(BUCKETS + 1):
            self._write(bucket)

    def _gpu(self, random: Random) -> Gpu:
        samples = {key: self._gauge(random) for key in GAUGES}
        samples[COUNTER] = self._counter(random)
        samples[f"flag:{FLAG}"] = {b: float(random.random() < 0.5) for b in self._times(random)}
        job = random.choice(("", "j1", "j1", "j2"))
        return Gpu(job, random.choice("ab"), random.choice(("h100", "a100")), samples)

    def _times(self, random: Random) -> list[int]:
        share = random.choice((0.0, 0.3, 0.6, 1.0))
        return [b for b in range(BUCKETS + 1) if random.random() < share]

    def _gauge(self, random: Random) -> dict[int, float]:
        level = random.choice((0.0, 0.5, 1.0))
        spread = random.choice((0.0, 0.5))
        values = {b: level + spread * (random.random() - 0.5) for b in self._times(random)}
        return {b: float(np.float32(abs(v))) for b, v in values.items()}

    def _counter(self, random: Random) -> dict[int, float]:
        total, samples = float(random.randint(0, 10**9)), {}
        for bucket in self._times(random):
            total = 0.0 if random.random() < 0.1 else total + random.randint(0, 3)
            samples[bucket] = total
        return samples

    def _write(self, bucket: int) -> None:
        observations = []
        for name, one in self.gpus.items():
            values = {k: s[bucket] for k, s in one.samples.items() if bucket in s}
            entity = gpu(name, one.job, one.node, one.sku)
            observations.append(seen(entity, 10.0 * bucket, values))
        self.bench.write(*observations)

    def oracle(self, demands: tuple[float, int]) -> Oracle:
        gpus = {
            name: Gpu(
                one.job, one.node, one.sku, {k: self._placed(s) for k, s in one.samples.items()}
            )
            for name, one in self.gpus.items()
        }
        return Oracle(gpus, self.first + BUCKETS, *demands, frozenset({COUNTER}))

    def _placed(self, samples: Mapping[int, float]) -> dict[int, float]:
        return {self.first + bucket: value for bucket, value in samples.items()}


@pytest.mark.parametrize("each", ["gpu", "job", "node"])
@given(data=st.data())
@examples(0.4)
def test_verdicts_are_those_of_plain_python(each: EntityKind, data: st.DataObject) -> None:
    fleet = Fleet(Random(data.draw(st.integers(0, 2**32))))
    roots = data.draw(st.lists(conditions(each), min_size=1, max_size=12))
    demands = data.draw(st.tuples(st.sampled_from((0.0, 0.5, 0.9)), st.integers(1, 4)))
    questions = [Condition(Expression(to_text(r), each, r), DataLimits(*demands)) for r in roots]
    answer = NumpyEngine(fleet.bench.store).round(questions, START_S + 10.0 * BUCKETS)
    for root, judgement in zip(roots, answer.judgements, strict=True):
        for column, entity in enumerate(answer.rosters[each].entities):
            assert entity is not None
            try:
                expected = fleet.oracle(demands).truth(each, entity.id, root)
            except Near:
                continue
            assert judgement.verdicts[column] == VERDICT[expected], (entity.id, to_text(root))


def test_unknown_decides_nothing_but_does_not_hide_what_is_decided() -> None:
    bench = steady({"ofu": 0.1})
    assert judge(bench, "ofu < 1 and power > 1", 600) == {"a": UNKNOWN}
    assert judge(bench, "ofu > 1 and power > 1", 600) == {"a": CLEAR}
    assert judge(bench, "ofu < 1 or power > 1", 600) == {"a": HOLDS}
    assert judge(bench, "ofu > 1 or power > 1", 600) == {"a": UNKNOWN}
    assert judge(bench, "not power > 1", 600) == {"a": UNKNOWN}


def test_a_last_value_is_fresh_for_a_minute() -> None:
    bench = steady({"ofu": 0.1})
    assert judge(bench, "ofu < 1", 660) == {"a": HOLDS}
    assert judge(bench, "ofu < 1", 670) == {"a": UNKNOWN}


def test_a_last_total_of_a_counter_is_fresh_for_a_minute_as_well() -> None:
    bench = steady({"ecc_uncorrected": 3.0})
    assert judge(bench, "ecc_uncorrected == 3", 660) == {"a": HOLDS}
    assert judge(bench, "ecc_uncorrected == 3", 670) == {"a": UNKNOWN}


def test_half_of_a_window_is_enough_to_know_unless_told_otherwise() -> None:
    bench = Bench()
    for at_s in range(10, 160, 10):
        bench.write(seen(gpu("a"), at_s, {"ofu": 0.1}))
    assert judge(bench, "avg(ofu, 5m) < 1", 150) == {"a": HOLDS}
    assert judge(bench, "avg(ofu, 5m) < 1", 170) == {"a": HOLDS}
    assert judge(bench, "avg(ofu, 5m) < 1", 150, min_coverage=0.6) == {"a": UNKNOWN}
    assert judge(bench, "avg(ofu, 310s) < 1", 150) == {"a": UNKNOWN}
    assert judge(bench, "last(ofu, 5m) < 1", 430) == {"a": HOLDS}
    assert judge(bench, "count(ofu, 5m) < 1", 1000) == {"a": HOLDS}


def test_peers_count_only_when_there_are_enough_of_them() -> None:
    bench = steady({"ofu": 0.1}, a="j", b="j", c="j", d="")
    same = "ofu == peers.median(ofu)"
    known, alone = {"a": HOLDS, "b": HOLDS, "c": HOLDS}, {"d": UNKNOWN}
    assert judge(bench, same, 600, min_peers=3) == known | alone
    assert judge(bench, same, 600) == dict.fromkeys("abcd", UNKNOWN)


def test_a_gpu_is_its_own_peer() -> None:
    bench = Bench()
    values = {"a": 1.0, "b": 2.0, "c": 6.0}
    bench.write(*(seen(gpu(n, "j"), 10, {"ofu": v}) for n, v in values.items()))
    expected = {
        "peers.avg(ofu) == 3": HOLDS,
        "peers.median(ofu) == 2": HOLDS,
        "peers.mad(ofu) == 1": HOLDS,
        "peers.min(ofu) == 1": HOLDS,
        "peers.max(ofu) == 6": HOLDS,
        "peers.sum(ofu) == 9": HOLDS,
        "peers.count(ofu) == 3": HOLDS,
        "peers.count(ofu > 1.5) == 2": HOLDS,
        "peers.quantile(0.75, ofu) == 4": HOLDS,
    }
    for text, verdict in expected.items():
        assert judge(bench, text, 10, min_peers=3)["a"] == verdict, text


def test_a_job_is_judged_over_its_gpus_and_a_node_over_its_own() -> None:
    bench = Bench()
    bench.write(
        seen(gpu("a", "j1", "n1"), 10, {"ofu": 0.2}),
        seen(gpu("b", "j1", "n2"), 10, {"ofu": 0.4}),
        seen(gpu("c", "j2", "n2"), 10, {}),
    )
    assert judge(bench, "gpus.avg(ofu) > 25%", 10, "job") == {"j1": HOLDS, "j2": UNKNOWN}
    assert judge(bench, "gpus.avg(ofu) > 25%", 10, "node") == {"n1": CLEAR, "n2": HOLDS}


def test_values_of_a_group_are_counted_also_where_there_are_none() -> None:
    bench = Bench()
    bench.write(
        seen(gpu("a", "j1"), 10, {"ofu": 0.2}),
        seen(gpu("b", "j1"), 10, {"power": 1.0}),
        seen(gpu("c", "j2"), 10, {"power": 1.0}),
    )
    assert judge(bench, "gpus.count(ofu) == 0", 10, "job") == {"j1": CLEAR, "j2": HOLDS}
    unknown = judge(bench, "gpus.count(ofu < 5%) == 0", 10, "job")
    assert unknown == {"j1": HOLDS, "j2": UNKNOWN}
    peers = judge(bench, "peers.count(ofu) < 1", 10, min_peers=1)
    assert peers == {"a": CLEAR, "b": CLEAR, "c": UNKNOWN}


def test_a_gpu_sees_what_its_job_and_node_report() -> None:
    bench = Bench(registry=with_parents())
    bench.write(seen(gpu("a", "j1"), 10, {"ofu": 0.2}), seen(gpu("b", node=""), 10, {"ofu": 0.2}))
    bench.write(
        seen(Entity("job", "j1", {}), 10, {"job_mfu": 0.5}),
        seen(Entity("node", "n0", {}), 10, {"node_load": 0.9}),
    )
    assert judge(bench, "ofu < job.job_mfu", 10) == {"a": HOLDS, "b": UNKNOWN}
    assert judge(bench, "node.max(node_load, 10s) > ofu", 10) == {"a": HOLDS, "b": UNKNOWN}
    assert judge(bench, "job_mfu > gpus.avg(ofu)", 10, "job") == {"j1": HOLDS}


def with_parents() -> Registry:
    """The registry with a metric of jobs and one of nodes."""
    ofu = REGISTRY.metrics["ofu"]
    job = msgspec.structs.replace(ofu, entity="job", name="test.job.mfu")
    node = msgspec.structs.replace(ofu, entity="node", name="test.node.load")
    added = {"job_mfu": job, "node_load": node}
    return Registry({**REGISTRY.metrics, **added}, REGISTRY.attributes)


def test_windows_of_hours_are_judged_over_minutes() -> None:
    bench = steady({"ofu": 0.25}, until_s=7200)
    (evidence,) = observed(bench, "avg(ofu, 2h) < 30%", 7200)
    assert (evidence.verdict, evidence.value, evidence.coverage) == (HOLDS, 0.25, 1.0)
    assert judge(bench, "avg(ofu, 5m) == avg(ofu, 5m offset 90m)", 7200) == {"a": HOLDS}
    assert judge(bench, "avg(ofu, 5h) < 1", 7200) == {"a": UNKNOWN}
    assert judge(bench, "count(ofu, 2h) == 720", 7200) == {"a": HOLDS}


def test_rates_over_hours_are_those_of_the_counter() -> None:
    bench = Bench(Retention(depth_s=300, minutes={("gpu", "energy"): 7200.0}))
    for at_s in range(10, 7210, 10):
        bench.write(seen(gpu("a"), at_s, {"energy": 5e9 + 650.0 * at_s}))
    (evidence,) = observed(bench, "rate(energy, 2h) > 1", 7200)
    assert evidence.value == pytest.approx(650)
    (evidence,) = observed(bench, "increase(energy, 90m) > 1", 7200)
    assert evidence.value == pytest.approx(650 * 5400)


def test_evidence_has_the_numbers_that_redo_the_comparison() -> None:
    bench = steady({"ofu": 0.25, "gpu_util": 0.5, f"flag:{FLAG}": 1.0}, until_s=300)
    text = f"avg(ofu, 10m) < 30% and not gpu_util > 2 * 0.4 and flag({FLAG})"
    ofu, util, flag = observed(bench, text, 300)
    assert (ofu.value, ofu.coverage, ofu.window_s) == (0.25, 0.5, 600)
    assert ofu.threshold == pytest.approx(0.3)
    assert (ofu.verdict, util.verdict, flag.verdict) == (HOLDS, CLEAR, HOLDS)
    assert (util.value, util.window_s) == (0.5, 0)
    assert util.threshold == pytest.approx(0.8)
    assert flag.value == 1
    assert np.isnan(util.coverage)


def test_evidence_of_a_group_tells_how_many_gpus_had_a_value() -> None:
    bench = Bench()
    bench.write(*(seen(gpu(n, "j"), 10, {"ofu": 1} if n < "d" else {}) for n in "abcd"))
    (evidence,) = observed(bench, "peers.avg(ofu) > 0", 10, min_peers=2)
    assert evidence.coverage == 0.75


def test_an_explanation_has_every_part_with_its_value() -> None:
    bench = steady({"ofu": 0.25})
    question = ask("avg(ofu, 1m) * 2 < 60% or peers.avg(ofu) > 1")
    parts = NumpyEngine(bench.store).explain(question, START_S + 600, "a")
    told = [(p.depth, p.text, p.verdict if p.verdict is not None else p.value) for p in parts]
    assert told[:5] == [
        (0, "avg(ofu, 1m) * 2 < 60% or peers.avg(ofu) > 1", HOLDS),
        (1, "avg(ofu, 1m) * 2 < 60%", HOLDS),
        (2, "avg(ofu, 1m) * 2", 0.5),
        (3, "avg(ofu, 1m)", 0.25),
        (3, "2", 2.0),
    ]
    with pytest.raises(KeyError):
        NumpyEngine(bench.store).explain(question, START_S + 600, "nobody")


def test_nothing_is_judged_of_an_ended_gpu() -> None:
    bench = steady({"ofu": 0.1}, a="", b="")
    bench.store.end("gpu", "a")
    answer = NumpyEngine(bench.store).round([ask("ofu < 1")], START_S + 600)
    assert answer.judgements[0].verdicts.tolist() == [UNKNOWN, HOLDS]
    assert answer.rosters["gpu"].entities[0] is None


def test_an_empty_store_has_no_verdicts() -> None:
    questions = [
        ask("avg(ofu, 5m) < peers.mad(ofu) or flag(X)"),
        ask("gpus.quantile(0.5, ofu) > 1 and 1 < 2", "job"),
    ]
    answer = NumpyEngine(Bench().store).round(questions, START_S)
    assert [len(j.verdicts) for j in answer.judgements] == [0, 0]


def test_a_division_by_zero_and_a_huge_number_are_no_crash() -> None:
    bench = steady({"ofu": 0.0, "gpu_util": 0.5})
    assert judge(bench, "gpu_util / ofu > 1", 600) == {"a": UNKNOWN}
    assert judge(bench, "gpu_util / 0 > 1 or 1 / 0 > 2", 600) == {"a": UNKNOWN}
    assert judge(bench, "gpu_util < 1e300 * 1e300", 600) == {"a": HOLDS}
    assert judge(bench, "1 < 2", 600) == {"a": HOLDS}


def test_retention_is_what_the_longest_window_needs() -> None:
    texts = ["avg(ofu, 10m offset 20m) < 1", "avg(power, 2h) > 1", "flag(X) or sm_clock < 1"]
    expressions = [parse_condition(text, "gpu", REGISTRY) for text in texts]
    expressions.append(parse_condition("gpus.avg(avg(power, 3h)) > 1", "job", REGISTRY))
    retention = retention_for(expressions, 10.0, everything=False)
    assert retention.depth_s == 1800
    assert retention.minutes == {("gpu", "power"): 10_800}
    assert retention.only is not None
    assert {name for _, name in retention.only} == {"ofu", "power", "flag:X", "sm_clock"}
    assert retention_for(expressions, 10.0).only is None
