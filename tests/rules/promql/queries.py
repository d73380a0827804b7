"""Parts of conditions as queries, which nobody sends: to hold them to the embedded engine."""

from __future__ import annotations

from otel_ofu.catalog.registry import Registry
from otel_ofu.rules.language.syntax import Boolean, Expression, Numeric
from otel_ofu.rules.promql.compiler import Compiler, checked_text
from otel_ofu.rules.promql.samples import MetricVectors
from otel_ofu.rules.promql.vectors import CompilerSettings


def verdict_query(expression: Expression, registry: Registry, settings: CompilerSettings) -> str:
    """1 for each entity for which a condition holds, 0 where it fails; no sample: unknown."""
    assert isinstance(expression.root, Boolean)
    compiler = Compiler(MetricVectors(registry, settings, expression.each))
    return checked_text(compiler.verdict(expression.root))


def value_query(
    expression: Expression, node: Numeric, registry: Registry, settings: CompilerSettings
) -> str:
    """The value of a sub-expression for each entity; no sample: no value."""
    compiler = Compiler(MetricVectors(registry, settings, expression.each))
    value = compiler.value(node)
    return checked_text(None if value is None else compiler.everywhere(value))
