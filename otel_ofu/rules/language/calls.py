"""References and function calls: names, arguments, windows, and the owner of the metric."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lark import Token

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.functions import (
    FLAG,
    GROUP_FUNCTIONS,
    SCALAR_FUNCTIONS,
    WINDOW_FUNCTIONS,
    GroupFunction,
    ScalarFunction,
    WindowFunction,
)
from otel_ofu.rules.language.names import MetricReference, NameMistake, nearest, resolve
from otel_ofu.rules.language.parsing import (
    Check,
    ParseTree,
    TypedNode,
    TypeMistake,
    duration_s,
    number,
    quantile_share,
    shown,
    span_of,
    subtrees,
    token,
)
from otel_ofu.rules.language.syntax import (
    Aggregate,
    Boolean,
    FlagCondition,
    Latest,
    Over,
    Relation,
    Scalar,
    Scope,
)
from otel_ofu.rules.language.units import RATIO, result_unit

# Starting value: a month of minutes of one metric is 0.35 MB a GPU.
MAX_WINDOW_S = 30 * 86_400

_FLAG_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def reference(tree: ParseTree, each: EntityKind, registry: Registry) -> TypedNode:
    """A metric that stands alone: its last value."""
    metric = _resolve(token(tree), each, registry)
    return TypedNode(Latest(metric.key, metric.scope, span_of(tree)), metric.unit)


def call(tree: ParseTree, each: EntityKind, registry: Registry, check: Check) -> TypedNode | None:
    """A function call of any kind. None after a mistake in an argument that `check` noted."""
    name = token(tree)
    head, dot, function = name.partition(".")
    if dot and head in set(Relation):
        return _group(tree, each, check)
    if name in SCALAR_FUNCTIONS:
        return _scalar(tree, SCALAR_FUNCTIONS[name], each, check)
    if name == FLAG:
        return _flag(tree, each)
    if dot and head not in {"job", "node"}:
        raise TypeMistake(
            name, f"unknown {shown(head)!r} before the dot: peers, gpus, job or node are possible"
        )
    return _over(tree, _window_function(name, function if dot else head), each, registry)


def _scalar(
    tree: ParseTree, function: ScalarFunction, each: EntityKind, check: Check
) -> TypedNode | None:
    parts = subtrees(tree)
    if len(parts) != 1:
        raise TypeMistake(tree, f"{function.name} takes one value: {function.usage}")
    typed = check(parts[0], each)
    if typed is None:
        return None
    node = Scalar(function.name, number(tree, 0, typed), span_of(tree))
    return TypedNode(node, result_unit(function.unit, typed.unit))


def _flag(tree: ParseTree, each: EntityKind) -> TypedNode:
    parts = subtrees(tree)
    name = _reference_name(parts[0]) if len(parts) == 1 else None
    if name is None or not _FLAG_NAME.fullmatch(name):
        raise TypeMistake(tree, "flag takes one name: flag(TORCH_DISTRIBUTED_DEBUG)")
    if each != "gpu":
        raise TypeMistake(tree, f"flags belong to GPUs: write gpus.count(flag({name})) > 0")
    return TypedNode(FlagCondition(str(name), span_of(tree)), RATIO)


def _over(
    tree: ParseTree, function: WindowFunction, each: EntityKind, registry: Registry
) -> TypedNode:
    parts = subtrees(tree)
    if len(parts) != (3 if function.share else 2):
        raise TypeMistake(tree, f"{function.name} needs a metric and a window: {function.usage}")
    q = quantile_share(parts[0]) if function.share else None
    window_s, offset_s = _window(parts[-1])
    metric = _windowed(token(tree), parts[-2], each, registry)
    _check_kind(parts[-2], function, metric)
    node = Over(function.name, metric.key, window_s, offset_s, q, metric.scope, span_of(tree))
    return TypedNode(node, result_unit(function.unit, metric.unit))


def _window_function(name: Token, word: str) -> WindowFunction:
    if word not in WINDOW_FUNCTIONS:
        known = [*WINDOW_FUNCTIONS, *SCALAR_FUNCTIONS, FLAG]
        hint = nearest(word, known) or f"; there are {', '.join(known)}"
        raise TypeMistake(name, f"unknown function {shown(word)}{hint}")
    return WINDOW_FUNCTIONS[word]


def _windowed(
    name: Token, part: ParseTree, each: EntityKind, registry: Registry
) -> MetricReference:
    metric_name = _reference_name(part)
    if metric_name is None:
        raise TypeMistake(part, "a window is over one metric, not over an expression")
    scope = Scope(name.partition(".")[0]) if "." in name else Scope.OWN
    if scope is Scope.OWN:
        return _resolve(metric_name, each, registry)
    return _resolve(metric_name, each, registry, f"{scope.value}.{metric_name}")


def _resolve(
    at: Token, each: EntityKind, registry: Registry, name: str | None = None
) -> MetricReference:
    try:
        return resolve(str(at) if name is None else name, each, registry)
    except NameMistake as mistake:
        raise TypeMistake(at, str(mistake)) from mistake


def _reference_name(part: ParseTree) -> Token | None:
    return token(part) if part.data == "reference" else None


def _window(part: ParseTree) -> tuple[float, float]:
    """The window and the offset in seconds, of an argument `10m` or `10m offset 1h`."""
    if part.data not in {"duration", "shifted"}:
        raise TypeMistake(part, "expected a duration such as 10m")
    lengths: Sequence[float] = [duration_s(t) for t in part.children if isinstance(t, Token)]
    window_s, offset_s = lengths[0], lengths[1] if len(lengths) > 1 else 0.0
    if window_s <= 0:
        raise TypeMistake(part, "a window of no length: expected a duration such as 10m")
    if window_s + offset_s > MAX_WINDOW_S:
        days = MAX_WINDOW_S // 86_400
        raise TypeMistake(part, f"looks back more than {days} days, the most allowed")
    return window_s, offset_s


def _check_kind(part: ParseTree, function: WindowFunction, metric: MetricReference) -> None:
    if function.metrics == "any" or metric.counter == (function.metrics == "counter"):
        return
    name = function.name
    if metric.counter:
        message = f"{metric.key} only ever grows: use {_of_counters()}, not {name}"
        raise TypeMistake(part, message)
    raise TypeMistake(part, f"{metric.key} is not a counter: use avg, min or max, not {name}")


def _of_counters() -> str:
    return " or ".join(f.name for f in WINDOW_FUNCTIONS.values() if f.metrics == "counter")


def _group(tree: ParseTree, each: EntityKind, check: Check) -> TypedNode | None:
    """The group function of a call. None after a mistake in its operand that `check` noted."""
    relation, function = _group_head(tree, each)
    parts = subtrees(tree)
    if len(parts) != (2 if function.share else 1):
        raise TypeMistake(tree, f"write {function.usage(relation.value)}")
    q = quantile_share(parts[0]) if function.share else None
    operand = check(parts[-1], "gpu")
    if operand is None:
        return None
    if isinstance(operand.node, Boolean) and not function.of_condition:
        message = f"{function.name} needs a number; only {_of_conditions()} takes a condition"
        raise TypeMistake(parts[-1], message)
    node = Aggregate(relation, function.name, operand.node, q, span_of(tree))
    return TypedNode(node, result_unit(function.unit, operand.unit))


def _of_conditions() -> str:
    return " or ".join(f.name for f in GROUP_FUNCTIONS.values() if f.of_condition)


def _group_head(tree: ParseTree, each: EntityKind) -> tuple[Relation, GroupFunction]:
    name = token(tree)
    head, _, word = name.partition(".")
    relation = Relation(head)
    if relation is Relation.PEERS and each != "gpu":
        raise TypeMistake(
            name, f"`peers.` stands in gpu rules only; in a {each} rule write gpus.{word}"
        )
    if relation is Relation.GPUS and each == "gpu":
        raise TypeMistake(
            name, f"`gpus.` stands in job and node rules; in a gpu rule write peers.{word}"
        )
    if word not in GROUP_FUNCTIONS:
        hint = nearest(word, GROUP_FUNCTIONS) or f"; there are {', '.join(GROUP_FUNCTIONS)}"
        raise TypeMistake(name, f"unknown function {shown(word)} of a group{hint}")
    return relation, GROUP_FUNCTIONS[word]
