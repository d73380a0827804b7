"""The queries that a condition becomes: expression -> the text of one PromQL query."""

from __future__ import annotations

from otel_ofu.catalog.registry import Registry
from otel_ofu.model import EntityKind
from otel_ofu.rules.language.syntax import Boolean, Expression, Numeric
from otel_ofu.rules.promql.compiler import Compiler, checked_text
from otel_ofu.rules.promql.samples import Samples
from otel_ofu.rules.promql.settings import Settings


def alert_query(expression: Expression, registry: Registry, settings: Settings) -> str:
    """The entities for which a condition holds, with the left side of its first comparison.

    Raises NotInPromql.
    """
    return checked_text(_compiler(expression, registry, settings).holds(_condition(expression)))


def verdict_query(expression: Expression, registry: Registry, settings: Settings) -> str:
    """1 for each entity for which a condition holds, 0 where it fails; no sample: unknown.

    Raises NotInPromql.
    """
    return checked_text(_compiler(expression, registry, settings).verdict(_condition(expression)))


def silence_query(after_s: float, each: EntityKind, registry: Registry, settings: Settings) -> str:
    """The entities that there are and that nothing was heard of for `after_s`."""
    return checked_text(Samples(registry, settings, each).silent(after_s))


def value_query(
    expression: Expression, node: Numeric, registry: Registry, settings: Settings
) -> str:
    """The value of a sub-expression for each entity; no sample: no value. Raises NotInPromql."""
    compiler = _compiler(expression, registry, settings)
    value = compiler.value(node)
    return checked_text(None if value is None else compiler.everywhere(value))


def _compiler(expression: Expression, registry: Registry, settings: Settings) -> Compiler:
    return Compiler(Samples(registry, settings, expression.each))


def _condition(expression: Expression) -> Boolean:
    if isinstance(expression.root, Boolean):
        return expression.root
    raise TypeError(f"{expression.text}: a number, not a condition")
