"""The same fleet in the store and in a real Prometheus: every verdict has to be the same.

What is compared is the engine over HTTP, the query for verdicts, and the query of an exported
alert, each against the embedded engine, entity by entity.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_ofu.files.installed import shipped
from otel_ofu.model import EntityKind
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.files import RuleSet, load_rules, rules_from_text
from otel_ofu.rules.history_check import HistoryCheck
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import (
    Boolean,
    DataLimits,
    Expression,
    FlagCondition,
    Latest,
    Number,
    Over,
    walk,
)
from otel_ofu.rules.lifecycle.evaluation import StoreLastSeen
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.promql.compiler import alert_query
from otel_ofu.rules.promql.engine import PromqlEngine, PromqlLastSeen
from otel_ofu.rules.promql.ruler import TARGETS, export_rules
from otel_ofu.rules.promql.samples import NotInPromqlError
from otel_ofu.rules.promql.server import QueryClient, QueryError
from otel_ofu.rules.promql.vectors import CompilerSettings, entity_of, key_of
from otel_ofu.rules.settings import ServerSettings
from otel_ofu.rules.verdicts import CLEAR, HOLDS, UNKNOWN, Condition, EntityComparison, VerdictRound
from otel_ofu.store import Store
from tests.peers.conftest import built
from tests.peers.peer import run_tool
from tests.peers.processes import Prometheus
from tests.properties import examples
from tests.rules.promql.fleet import STEP_S, Fleet, fleet_registry, small_fleet
from tests.rules.promql.queries import verdict_query
from tests.rules.trees import conditions

pytestmark = pytest.mark.peer

REGISTRY = fleet_registry()
# Floats of 32 bits here, of 64 bits there: this close to a threshold either side may be right.
BAND = 1e-5
KINDS: tuple[EntityKind, ...] = ("gpu", "job", "node")

TEXTS: Mapping[EntityKind, tuple[str, ...]] = {
    "gpu": (
        "job.mfu < 50%",
        "node.load > ofu",
        "job.avg(mfu, 5m) > node.avg(load, 5m)",
        "avg(ofu, 10m) < job.avg(mfu, 10m) and node.last(load, 10m) > 30%",
        "job.count(mfu, 5m) + node.count(load, 5m) > 40",
        "peers.median(ofu) < node.load",
        "peers.count(ofu < job.mfu) > 3",
        "peers.avg(job.mfu) == job.mfu",
        "peers.max(node.load) > node.load",
        "flag(NCCL_DEBUG) and not peers.count(flag(NCCL_DEBUG)) > 4",
        "ofu / (gpu_util - gpu_util) > 0",
        "ofu / (peers.min(ofu) - peers.min(ofu)) > 0 or ofu > 50%",
        "1 < 2",
        "1 < 2 and ofu < 50%",
        "2 < 1 or ofu < 50%",
        "peers.count(1 < 2) > 5",
        "peers.avg(3) == 3",
        "count(xid:79, 5m) < 15",
        "increase(xid:79, 5m) > 40",
        "rate(xid:79, 5m) > 0.1",
        "last(ofu, 25m) == ofu",
    ),
    "job": (
        "mfu < 50%",
        "avg(mfu, 5m) > 1.2 * gpus.avg(avg(ofu, 5m))",
        "gpus.count(node.load > 50%) > 3",
        "gpus.max(job.mfu) == mfu",
        "gpus.count(flag(NCCL_DEBUG)) > 4",
        "gpus.avg(ofu) < 1 / 0",
        "gpus.count(ofu) == 0",
        "gpus.count(avg(gpu_util, 5m offset 30m)) < 1 or mfu > 50%",
        "gpus.count(avg(ofu, 5m) / 0) == 0",
        "gpus.count(ofu > 200%) == 0",
    ),
    "node": (
        "load > 50%",
        "gpus.avg(job.mfu) > 50%",
        "gpus.count(last(ofu, 10s)) == 0",
        "not gpus.count(job.mfu) > 2",
        "count(load, 5m) < 20 or gpus.mad(ofu) > 10%",
    ),
}


@dataclass(frozen=True)
class Both:
    """One fleet twice, and who judges it."""

    fleet: Fleet
    store: Store
    server: QueryClient

    def compare(self, question: Condition, at_s: float) -> Mapping[str, int]:
        """The verdicts of the embedded engine, after all others gave the same."""
        ours = NumpyEngine(self.store).round([question], at_s)
        theirs = PromqlEngine(self.server, self.fleet.registry, step_s=STEP_S).round(
            [question], at_s
        )
        verdicts, sure = by_id(ours), surely(ours)
        asked = {"engine": by_id(theirs), **self._queries(question, at_s)}
        for name, others in asked.items():
            both = {each: (verdicts[each], others.get(each, UNKNOWN)) for each in sure}
            different = {each: pair for each, pair in both.items() if pair[0] != pair[1]}
            assert not different, f"{name} at {at_s:.0f}: {question.expression.text}"
        check_evidence(ours, theirs)
        return verdicts

    def _queries(self, question: Condition, at_s: float) -> Mapping[str, Mapping[str, int]]:
        """The verdicts of what is sent to others; for old servers at every other instant."""
        closed = bool(int(at_s / STEP_S) % 2)
        limits = CompilerSettings(STEP_S, question.limits, closed)
        expression, registry = question.expression, self.fleet.registry
        asked = self._ask(verdict_query(expression, registry, limits), expression.each, at_s)
        firing = self._ask(alert_query(expression, registry, limits), expression.each, at_s)
        assert set(firing) == {each for each, value in asked.items() if value == 1}
        return {f"verdicts, closed={closed}": {each: int(v) for each, v in asked.items()}}

    def _ask(self, promql: str, kind: EntityKind, at_s: float) -> Mapping[str, float]:
        samples = self.server.query(promql, at_s)
        found = {entity_of(kind, key_of(kind, labels)).id: value for labels, value in samples}
        assert len(found) == len(samples)
        return found


def by_id(round_: VerdictRound) -> Mapping[str, int]:
    (judgement,) = round_.judgements
    entities = round_.rosters[judgement.condition.expression.each].entities
    return {
        entity.id: int(judgement.verdicts[column])
        for column, entity in enumerate(entities)
        if entity is not None
    }


def surely(round_: VerdictRound) -> set[str]:
    """The entities none of whose comparisons is decided by the last digits of a float32."""
    (judgement,) = round_.judgements
    entities = round_.rosters[judgement.condition.expression.each].entities
    return {
        entity.id
        for column, entity in enumerate(entities)
        if entity is not None and not any(is_close(seen) for seen in judgement.at(column))
    }


def is_close(seen: EntityComparison) -> bool:
    """Within the band, but not equal: equal values are equal in both."""
    return 0 < abs(seen.value - seen.threshold) <= band(seen)


def band(seen: EntityComparison) -> float:
    """How much the two may differ: digits of the largest number that went into a comparison."""
    literals = [abs(n.value) for n in walk(seen.node) if isinstance(n, Number)]
    sides = [abs(side) for side in (seen.value, seen.threshold) if not math.isnan(side)]
    return BAND * max((1.0, *literals, *sides))


def check_evidence(ours: VerdictRound, theirs: VerdictRound) -> None:
    """The same values and thresholds; coverage where it was asked for."""
    kind = ours.judgements[0].condition.expression.each
    for column, entity in enumerate(ours.rosters[kind].entities):
        other = theirs.rosters[kind].column(entity.id) if entity else None
        if other is not None:
            pairs = zip(ours.judgements[0].at(column), theirs.judgements[0].at(other), strict=True)
            for seen, asked in pairs:
                check_numbers(seen, asked)


def check_numbers(seen: EntityComparison, asked: EntityComparison) -> None:
    text, close = to_text(seen.node), band(seen)
    assert asked.value == pytest.approx(seen.value, abs=close, nan_ok=True), text
    assert asked.threshold == pytest.approx(seen.threshold, abs=close, nan_ok=True), text
    if not math.isnan(asked.coverage):
        assert asked.coverage == pytest.approx(seen.coverage, abs=BAND), text


@pytest.fixture(scope="module")
def rules() -> RuleSet:
    return load_rules([shipped("rules")], REGISTRY)


@pytest.fixture(scope="module")
def both(rules: RuleSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    built("prometheus")
    used = {
        node.metric
        for expression in rules.expressions()
        for node in walk(expression.root)
        if isinstance(node, Latest | Over | FlagCondition) and node.metric not in ("mfu", "load")
    }
    folder = tmp_path_factory.mktemp("conformance")
    fleet = small_fleet(sorted(used))
    fleet.write_openmetrics(folder / "samples.txt")
    peer = Prometheus(folder / "prometheus")
    peer.load_openmetrics(folder / "samples.txt")
    with peer, closing(QueryClient(ServerSettings(url=peer.url))) as server:
        yield Both(fleet, fleet.store(), server)


def ask(root: Boolean, each: EntityKind, **limits: float) -> Condition:
    return Condition(Expression(to_text(root), each, root), DataLimits(**limits))  # type: ignore[arg-type]


@pytest.mark.parametrize("each", KINDS)
def test_generated_conditions_have_equal_verdicts(each: EntityKind, both: Both) -> None:
    met: set[int] = set()

    # The same conditions in each run: all three verdicts must be among them.
    @settings(examples(1), derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(
        conditions(each, longest_s=150),
        st.integers(0, 30),
        st.sampled_from((0.0, 0.5, 0.8, 1.0)),
        st.sampled_from((1, 4)),
    )
    def compare(root: Boolean, earlier: int, min_coverage: float, min_peers: int) -> None:
        question = ask(root, each, min_coverage=min_coverage, min_peers=min_peers)
        at_s = both.fleet.end_s - earlier * STEP_S
        try:
            met.update(both.compare(question, at_s).values())
        except NotInPromqlError as limit:
            assert "characters of PromQL" in str(limit)  # noqa: PT017 - most are short enough

    compare()
    assert met == {HOLDS, CLEAR, UNKNOWN}


@pytest.mark.parametrize(
    ("each", "text"), [(each, text) for each, texts in TEXTS.items() for text in texts]
)
def test_chosen_conditions_have_equal_verdicts(each: EntityKind, text: str, both: Both) -> None:
    question = Condition(parse_condition(text, each, both.fleet.registry))
    for earlier in (0, 7, 45):
        both.compare(question, both.fleet.end_s - earlier * STEP_S)


def test_the_last_total_of_a_counter_is_the_same(both: Both) -> None:
    """The store keeps the newest total alone, so there is one instant to compare at."""
    question = Condition(parse_condition("xid:79 > 10", "gpu", both.fleet.registry))
    assert set(both.compare(question, both.fleet.end_s).values()) == {HOLDS, CLEAR, UNKNOWN}


def test_shipped_rules_have_equal_verdicts(rules: RuleSet, both: Both) -> None:
    met: dict[str, set[int]] = {}
    for rule, earlier in product(rules, (0, 20, 55, 110)):
        for expression in (rule.condition, rule.clear):
            if isinstance(expression, Expression):
                question = Condition(expression, rule.limits)
                at_s = both.fleet.end_s - earlier * STEP_S
                found = both.compare(question, at_s)
                met.setdefault(rule.name, set()).update(found.values())
    assert met
    never_known = sorted(name for name, verdicts in met.items() if verdicts <= {UNKNOWN})
    assert not never_known, "the fleet has no samples for them"
    # An XID has no series before its first event, so a condition on several is clear of none.
    lasting = {name: met[name] for name in met if not EVENTS & {*_metrics(rules, name)}}
    assert sum(CLEAR in verdicts for verdicts in lasting.values()) > len(lasting) * 3 / 4, met
    assert sum(HOLDS in verdicts for verdicts in met.values()) > len(met) / 2, met


EVENTS = {"xid"}


def _metrics(rules: RuleSet, name: str) -> list[str]:
    """What the conditions of a rule are about, without labels."""
    (rule,) = (rule for rule in rules if rule.name == name)
    conditions = [c for c in (rule.condition, rule.clear) if isinstance(c, Expression)]
    nodes = [node for condition in conditions for node in walk(condition.root)]
    return [node.metric.partition(":")[0] for node in nodes if isinstance(node, Over)]


HELD = """
groups:
  - name: g
    rules:
      - {alert: Most, each: gpu, expr: "last(ofu, 25m) < 200%"}
      - {alert: Never, each: gpu, expr: enc_util > 50%}
      - {alert: Some, each: job, expr: gpus.count(ofu) > 0}
      - {alert: No, each: node, expr: "gpus.min(ofu) > 150%"}
"""


def test_rules_are_doubtful_alike_over_both(both: Both) -> None:
    registry = both.fleet.registry
    set_ = rules_from_text(HELD, registry)
    found = []
    for source in (NumpyEngine(both.store), PromqlEngine(both.server, registry, step_s=STEP_S)):
        check = HistoryCheck(set_, registry)
        check.add(source, both.fleet.end_s)
        found.append([str(problem) for problem in check.problems()])
    assert found[0] == found[1]
    (most, never, some) = found[0]
    assert "Most: true for " in most
    assert never.endswith("Never: never known: enc_util has no samples here")
    assert some.endswith("Some: true for 100% of 3 jobs now")


def test_silence_is_the_same(both: Both) -> None:
    fleet = both.fleet
    theirs = PromqlLastSeen(both.server, fleet.registry, clock=VirtualClock(fleet.end_s))
    found = [
        {
            e.id: float(time_s)
            for e, time_s in zip(*source.last_seen("gpu"), strict=True)
            if e is not None
        }
        for source in (StoreLastSeen(both.store), theirs)
    ]
    assert found[0] == found[1]
    assert len(found[0]) == len(fleet.entities["gpu"])


def test_exported_rules_pass_promtool(rules: RuleSet, promtool: Path, tmp_path: Path) -> None:
    for to in TARGETS:
        found = export_rules(rules, to, REGISTRY)
        tree = yaml.safe_load(found.text)
        groups = tree["spec"]["groups"] if "spec" in tree else tree["groups"]
        names = {rule["alert"] for group in groups for rule in group["rules"]}
        assert names == {rule.name for rule in rules}
        path = tmp_path / f"{to}.yaml"
        path.write_text(yaml.safe_dump({"groups": groups}) if to != "prometheus" else found.text)
        assert "SUCCESS" in run_tool("promtool", "check", "rules", str(path))


def test_a_query_that_the_server_dislikes_is_told_in_its_words(both: Both) -> None:
    with pytest.raises(QueryError, match=r"400 Bad Request: .*parse error"):
        both.server.query("avg(", 0.0)
