"""What is allowed in a rule and still probably not meant: rules in, one `Problem` each out."""

from __future__ import annotations

import math
from collections.abc import Iterator

from otel_ofu.catalog.registry import Registry
from otel_ofu.model.errors import Problem
from otel_ofu.rules.annotations import duration_words
from otel_ofu.rules.files.meaning import decided
from otel_ofu.rules.files.rule import SEVERITY, Rule, RuleGroup, RuleSet
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.ranges import Ranges
from otel_ofu.rules.language.spans import overlap
from otel_ofu.rules.language.syntax import Compare, Expression, Over, walk

# The default interval of `receivers.gpu`.
STEP_S = 10.0


def lint(rules: RuleSet, registry: Registry, step_s: float = STEP_S) -> list[Problem]:
    """Warnings in the order of the files. `step_s`: how often samples come in."""
    found = [
        problem_at_rule(rule, message)
        for group in rules.groups
        for rule in group.rules
        for message in (
            *_timing(rule, group),
            *_windows(rule, step_s),
            *_meaning(rule, Ranges(registry, rule.limits, step_s=step_s)),
            *_texts(rule),
            *_tests(rule),
        )
    ]
    return found + list(_duplicates(rules))


def problem_at_rule(rule: Rule, message: str) -> Problem:
    position = rule.position
    return Problem(position.path, position.line, position.column, f"{rule.name}: {message}")


def _timing(rule: Rule, group: RuleGroup) -> Iterator[str]:
    interval = duration_words(group.interval_s)
    timing = rule.timing
    for name, seconds in (
        ("for", timing.for_s),
        ("keep_firing_for", timing.keep_firing_for_s),
        ("missing_timeout", timing.missing_timeout_s),
    ):
        if 0 < seconds < group.interval_s:
            words = duration_words(seconds)
            yield f"{name} {words} is shorter than the interval {interval} of its group"
    condition = rule.condition
    if timing.for_s == 0 and isinstance(condition, Expression) and not _is_of_events(condition):
        yield "without `for` one round is enough to fire"


def _is_of_events(condition: Expression) -> bool:
    """Whether it asks only what was counted; an event does not have to last."""
    functions = {node.function for node in walk(condition.root) if isinstance(node, Over)}
    return functions == {"increase"}


def _windows(rule: Rule, step_s: float) -> Iterator[str]:
    nodes = dict.fromkeys(node for c in _conditions(rule) for node in walk(c.root))
    for node in nodes:
        if isinstance(node, Over) and node.window_s < 2 * step_s:
            step = duration_words(step_s)
            yield f"{to_text(node)}: a window shorter than two steps of {step} holds one sample"


def _meaning(rule: Rule, ranges: Ranges) -> Iterator[str]:
    """Comparisons that only a number of samples or an end of a range decides; a clear in vain."""
    for condition in _conditions(rule):
        for node in walk(condition.root):
            if isinstance(node, Compare):
                yield from _decided(node, ranges)
    if isinstance(rule.condition, Expression) and rule.clear:
        where = overlap(rule.condition, rule.clear, ranges)
        if where:
            yield f"clear overlaps expr: both hold with a steady {where}"


def _decided(node: Compare, ranges: Ranges) -> Iterator[str]:
    if found := decided(node, ranges):
        yield found
    elif ranges.outcome(node) == "at_edge":
        text = to_text(node)
        yield f"{text} holds wherever it is known; to ask for data write count(metric, 10m) > 0"


def _conditions(rule: Rule) -> list[Expression]:
    return [c for c in (rule.condition, rule.clear) if isinstance(c, Expression)]


def _texts(rule: Rule) -> Iterator[str]:
    if SEVERITY not in rule.labels:
        yield "no label `severity`; it counts as warning"
    if "summary" not in rule.annotations:
        yield "no annotation `summary`: notifications hold its name alone"


def _tests(rule: Rule) -> Iterator[str]:
    if not rule.tests:
        yield "no tests"
        return
    if not any(case.fires_at_s for case in rule.tests):
        yield "no test in which it fires"
    if all(case.fires_at_s for case in rule.tests):
        yield "no test in which it stays quiet"
    if not any(math.isnan(v) for case in rule.tests for s in case.series.values() for v in s):
        yield "no test with missing data (_x30)"
    for key in dict.fromkeys(key for case in rule.tests for key in case.hexadecimal):
        yield f"series {key}: a number in hexadecimal for YAML tools; put it in quotes, or 0.0x60"


def _duplicates(rules: RuleSet) -> Iterator[Problem]:
    first: dict[tuple[str, str], Rule] = {}
    for rule in rules:
        same = first.setdefault((rule.each, rule.condition_id), rule)
        if same is not rule and same.timing == rule.timing:
            position = f"{same.position.path}:{same.position.line}"
            yield problem_at_rule(rule, f"the same condition as {same.name} at {position}")
