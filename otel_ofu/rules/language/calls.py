"""References and function calls: names, arguments, windows, and whose metric it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lark import Token

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.language.groups import group
from otel_ofu.rules.language.names import NameMistake, Reference, nearest, resolve
from otel_ofu.rules.language.operations import number
from otel_ofu.rules.language.parsing import ParseTree, shown
from otel_ofu.rules.language.syntax import Absolute, Flag, Function, Latest, Over, Relation, Scope
from otel_ofu.rules.language.typed import (
    Check,
    Refusal,
    Typed,
    duration_s,
    quantile_share,
    span_of,
    subtrees,
    token,
)
from otel_ofu.rules.language.units import RATIO, SECOND, Unit, parse_unit, times

MAX_WINDOW_S = 30 * 86_400

_OF_COUNTERS = {Function.RATE, Function.INCREASE}
_OF_BOTH = {Function.COUNT}
_FLAG = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def reference(tree: ParseTree, each: EntityKind, registry: Registry) -> Typed:
    """A metric that stands alone: its last value."""
    metric = _resolve(token(tree), each, registry)
    return Typed(Latest(metric.key, metric.scope, span_of(tree)), metric.unit)


def call(tree: ParseTree, each: EntityKind, registry: Registry, check: Check) -> Typed | None:
    """A function call of any kind. None after a mistake in an argument that `check` noted."""
    name = token(tree)
    head, dot, function = name.partition(".")
    if dot and head in set(Relation):
        return group(tree, each, check)
    if name == "abs":
        return _absolute(tree, each, check)
    if name == "flag":
        return _flag(tree, each)
    if dot and head not in {"job", "node"}:
        raise Refusal(
            name, f"unknown {shown(head)!r} before the dot: peers, gpus, job or node can stand"
        )
    return _over(tree, function if dot else head, each, registry)


def _absolute(tree: ParseTree, each: EntityKind, check: Check) -> Typed | None:
    parts = subtrees(tree)
    if len(parts) != 1:
        raise Refusal(tree, "abs takes one value: abs(x)")
    typed = check(parts[0], each)
    if typed is None:
        return None
    return Typed(Absolute(number(tree, 0, typed), span_of(tree)), typed.unit)


def _flag(tree: ParseTree, each: EntityKind) -> Typed:
    parts = subtrees(tree)
    name = _reference_name(parts[0]) if len(parts) == 1 else None
    if name is None or not _FLAG.fullmatch(name):
        raise Refusal(tree, "flag takes one name: flag(TORCH_DISTRIBUTED_DEBUG)")
    if each != "gpu":
        raise Refusal(tree, f"flags belong to GPUs: write gpus.count(flag({name})) > 0")
    return Typed(Flag(str(name), span_of(tree)), RATIO)


def _over(tree: ParseTree, word: str, each: EntityKind, registry: Registry) -> Typed:
    function = _function(token(tree), word)
    parts = subtrees(tree)
    wanted = 3 if function is Function.QUANTILE else 2
    if len(parts) != wanted:
        raise Refusal(tree, f"{word} needs {_shape(function)}")
    q = quantile_share(parts[0]) if function is Function.QUANTILE else None
    window_s, offset_s = _window(parts[-1])
    metric = _windowed(token(tree), parts[-2], each, registry)
    _check_kind(parts[-2], function, metric)
    node = Over(function, metric.key, window_s, offset_s, q, metric.scope, span_of(tree))
    return Typed(node, _result_unit(function, metric.unit))


def _function(name: Token, word: str) -> Function:
    try:
        return Function(word)
    except ValueError:
        known = [*Function, "abs", "flag"]
        hint = nearest(word, known) or f"; there are {', '.join(known)}"
        raise Refusal(name, f"unknown function {shown(word)}{hint}") from None


def _shape(function: Function) -> str:
    inner = "0.95, metric, 10m" if function is Function.QUANTILE else "metric, 10m"
    return f"a metric and a window: {function.value}({inner})"


def _windowed(name: Token, part: ParseTree, each: EntityKind, registry: Registry) -> Reference:
    metric_name = _reference_name(part)
    if metric_name is None:
        raise Refusal(part, "a window is over one metric, not over an expression")
    scope = Scope(name.partition(".")[0]) if "." in name else Scope.OWN
    if scope is Scope.OWN:
        return _resolve(metric_name, each, registry)
    return _resolve(metric_name, each, registry, f"{scope.value}.{metric_name}")


def _resolve(
    place: Token, each: EntityKind, registry: Registry, name: str | None = None
) -> Reference:
    try:
        return resolve(str(place) if name is None else name, each, registry)
    except NameMistake as mistake:
        raise Refusal(place, str(mistake)) from mistake


def _reference_name(part: ParseTree) -> Token | None:
    return token(part) if part.data == "reference" else None


def _window(part: ParseTree) -> tuple[float, float]:
    """The window and the offset in seconds, of an argument `10m` or `10m offset 1h`."""
    if part.data not in {"duration", "shifted"}:
        raise Refusal(part, "expected a duration such as 10m")
    lengths: Sequence[float] = [duration_s(t) for t in part.children if isinstance(t, Token)]
    window_s, offset_s = lengths[0], lengths[1] if len(lengths) > 1 else 0.0
    if window_s <= 0:
        raise Refusal(part, "a window of no length: expected a duration such as 10m")
    if window_s + offset_s > MAX_WINDOW_S:
        days = MAX_WINDOW_S // 86_400
        raise Refusal(part, f"looks back more than {days} days, the most allowed")
    return window_s, offset_s


def _check_kind(part: ParseTree, function: Function, metric: Reference) -> None:
    name = function.value
    if function in _OF_BOTH or metric.counter == (function in _OF_COUNTERS):
        return
    if metric.counter:
        message = f"{metric.key} only ever grows: use rate or increase, not {name}"
        raise Refusal(part, message)
    raise Refusal(part, f"{metric.key} is no counter: use avg, min or max, not {name}")


def _result_unit(function: Function, unit: Unit) -> Unit:
    match function:
        case Function.RATE:
            return times(unit, SECOND, -1)
        case Function.COUNT:
            return parse_unit("{sample}")
        case _:
            return unit
