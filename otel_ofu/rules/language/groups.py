"""Functions over a group of GPUs: `peers.*` in gpu rules, `gpus.*` in job and node rules."""

from __future__ import annotations

from otel_ofu.model import EntityKind
from otel_ofu.rules.language.names import nearest
from otel_ofu.rules.language.parsing import ParseTree, shown
from otel_ofu.rules.language.syntax import Boolean, Group, GroupFunction, Relation
from otel_ofu.rules.language.typed import (
    Check,
    Refusal,
    Typed,
    quantile_share,
    span_of,
    subtrees,
    token,
)
from otel_ofu.rules.language.units import parse_unit


def group(tree: ParseTree, each: EntityKind, check: Check) -> Typed | None:
    """The group function of a call. None after a mistake in its operand that `check` noted."""
    relation, function = _head(tree, each)
    parts = subtrees(tree)
    quantile = function is GroupFunction.QUANTILE
    if len(parts) != (2 if quantile else 1):
        inner = "0.95, x" if quantile else "x"
        raise Refusal(tree, f"write {relation.value}.{function.value}({inner})")
    q = quantile_share(parts[0]) if quantile else None
    operand = check(parts[-1], "gpu")
    if operand is None:
        return None
    if isinstance(operand.node, Boolean) and function is not GroupFunction.COUNT:
        message = f"{function.value} needs a number; only count takes a condition"
        raise Refusal(parts[-1], message)
    unit = parse_unit("{gpu}") if function is GroupFunction.COUNT else operand.unit
    return Typed(Group(relation, function, operand.node, q, span_of(tree)), unit)


def _head(tree: ParseTree, each: EntityKind) -> tuple[Relation, GroupFunction]:
    name = token(tree)
    head, _, word = name.partition(".")
    relation = Relation(head)
    if relation is Relation.PEERS and each != "gpu":
        raise Refusal(
            name, f"`peers.` stands in gpu rules only; in a {each} rule write gpus.{word}"
        )
    if relation is Relation.GPUS and each == "gpu":
        raise Refusal(
            name, f"`gpus.` stands in job and node rules; in a gpu rule write peers.{word}"
        )
    try:
        return relation, GroupFunction(word)
    except ValueError:
        hint = nearest(word, GroupFunction) or f"; there are {', '.join(GroupFunction)}"
        raise Refusal(name, f"unknown function {shown(word)} of a group{hint}") from None
