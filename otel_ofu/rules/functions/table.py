"""One row for each function of the rule language; the checker, both engines and the docs read it.

A row holds the name, what the function takes and gives, its formula over NumPy, its PromQL and its
line in docs/rules.md. A missing column ends the import; tests/rules/functions holds every row to
all that reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np

from otel_ofu.rules.functions import bounds, groups, windows
from otel_ofu.rules.functions.bounds import Interval
from otel_ofu.rules.functions.groups import GroupedValues, Sums
from otel_ofu.rules.functions.windows import Chunk, Values

Quantity = Values | float
MetricKind = Literal["gauge", "counter", "any"]

SAME_UNIT = "x"
PER_SECOND = "x/s"


@dataclass(frozen=True, slots=True)
class WindowFunction:
    """`avg(ofu, 10m)`: of the samples of one metric in a window.

    `gives`: the line for people. `compute`: from the samples of some columns and the share of a
    quantile to a value a column, NaN without samples. `metrics`: which kind of metric it takes.
    `unit`: of the result, `x` that of the metric, `x/s` the same each second, else UCUM. `share`: a
    share in [0, 1] stands before the metric. `needs_coverage`: unknown with too few samples.
    `empty`: its value where there is no sample, None for unknown. `bounds`: from the range of the
    metric to that of the result.

    Fields of `promql`: `{samples}` the window (of a counter what each sample gained), `{q}` the
    share; of a counter also `{after_first}` the window without its first sample, `{times}` when
    each sample was, `{first_s}` when the first was.
    """

    name: str
    gives: str
    compute: Callable[[Chunk, float], Values]
    promql: str
    metrics: MetricKind = "gauge"
    unit: str = SAME_UNIT
    share: bool = False
    needs_coverage: bool = True
    empty: float | None = None
    bounds: Callable[[Interval], Interval] = bounds.same

    @property
    def usage(self) -> str:
        return f"{self.name}({'0.95, ' if self.share else ''}metric, 10m)"


@dataclass(frozen=True, slots=True)
class GroupFunction:
    """`peers.median(x)`, `gpus.avg(x)`: of the values of the GPUs of each group.

    `compute`: from the values and the share of a quantile to a value a group. `unit` and `share`
    as above, `bounds` likewise. `of_condition`: the function that is computed of 1 (holds) and 0
    (does not) when the operand is a condition; "" where a condition is refused. `empty`: its value
    for a group of `gpus.` without values, None for unknown.

    Fields of `promql`, which stands in brackets where it is an operation: `{x}` the values,
    `{operand}` the same beside an operator, `{by}` the clause that makes the groups, `{on}` the
    clause that joins values with their group, `{q}` the share.
    """

    name: str
    gives: str
    compute: Callable[[GroupedValues, float], Sums]
    promql: str
    unit: str = SAME_UNIT
    share: bool = False
    of_condition: str = ""
    empty: float | None = None
    bounds: Callable[[Interval], Interval] = bounds.same

    def usage(self, relation: str) -> str:
        return f"{relation}.{self.name}({'0.95, ' if self.share else ''}x)"


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """`abs(x)`: of one number. `compute` takes arrays and plain floats.

    Field of `promql`, in brackets where it is an operation: `{x}`, the number.
    """

    name: str
    gives: str
    compute: Callable[[Quantity], Quantity]
    promql: str
    bounds: Callable[[Interval], Interval]
    unit: str = SAME_UNIT

    @property
    def usage(self) -> str:
        return f"{self.name}(x)"


_Row = TypeVar("_Row", WindowFunction, GroupFunction, ScalarFunction)


def _by_name(*rows: _Row) -> Mapping[str, _Row]:
    return {row.name: row for row in rows}


def _absolute(x: Quantity) -> Quantity:
    return np.abs(x) if isinstance(x, np.ndarray) else abs(x)


WINDOW_FUNCTIONS: Mapping[str, WindowFunction] = _by_name(
    WindowFunction("avg", "the mean of the samples", windows.mean, "avg_over_time({samples})"),
    WindowFunction("min", "the smallest sample", windows.smallest, "min_over_time({samples})"),
    WindowFunction("max", "the largest sample", windows.largest, "max_over_time({samples})"),
    WindowFunction(
        "sum",
        "the sum of the samples",
        windows.total,
        "sum_over_time({samples})",
        bounds=bounds.summed,
    ),
    WindowFunction(
        "stddev",
        "the standard deviation of the samples",
        windows.deviation,
        "stddev_over_time({samples})",
        bounds=bounds.deviation,
    ),
    WindowFunction(
        "count",
        "how many samples there are; 0 and never unknown without any",
        windows.count,
        "count_over_time({samples})",
        metrics="any",
        unit="{sample}",
        needs_coverage=False,
        empty=0.0,
        bounds=bounds.from_zero,
    ),
    WindowFunction(
        "last",
        "the last sample in the window, however few there are",
        windows.last,
        "last_over_time({samples})",
        needs_coverage=False,
    ),
    WindowFunction(
        "rate",
        "growth each second, from the first sample to the last; resets are seen",
        windows.rate,
        "sum_over_time({after_first}) / (max_over_time({times}) - {first_s})",
        metrics="counter",
        unit=PER_SECOND,
        bounds=bounds.from_zero,
    ),
    WindowFunction(
        "increase",
        "growth within the window, not extrapolated; resets are seen",
        windows.total,
        "sum_over_time({samples})",
        metrics="counter",
        bounds=bounds.from_zero,
    ),
    WindowFunction(
        "quantile",
        "the quantile of the samples, here the 95th percentile",
        windows.quantile,
        "quantile_over_time({q}, {samples})",
        share=True,
    ),
)

GROUP_FUNCTIONS: Mapping[str, GroupFunction] = _by_name(
    GroupFunction("avg", "the mean", groups.mean, "avg {by} ({x})"),
    GroupFunction("min", "the smallest value", groups.smallest, "min {by} ({x})"),
    GroupFunction("max", "the largest value", groups.largest, "max {by} ({x})"),
    GroupFunction("sum", "the sum", groups.total, "sum {by} ({x})", bounds=bounds.summed),
    GroupFunction("median", "the median", groups.median, "quantile {by} (0.5, {x})"),
    GroupFunction(
        "mad",
        "the median distance from the median",
        groups.median_distance,
        "quantile {by} (0.5, abs({operand} - {on} quantile {by} (0.5, {x})))",
        bounds=bounds.distance,
    ),
    GroupFunction(
        "quantile",
        "the quantile, here the 95th percentile",
        groups.quantile,
        "quantile {by} ({q}, {x})",
        share=True,
    ),
    GroupFunction(
        "count",
        "how many GPUs have a value, 0 without any in `gpus.`; of a condition, as in "
        "`count(x < 5%)`, for how many it holds",
        groups.count,
        "count {by} ({x})",
        unit="{gpu}",
        of_condition="sum",
        empty=0.0,
        bounds=bounds.from_zero,
    ),
)

SCALAR_FUNCTIONS: Mapping[str, ScalarFunction] = _by_name(
    ScalarFunction("abs", "the value without its sign", _absolute, "abs({x})", bounds.absolute),
)

FLAG = "flag"
"""`flag(NAME)`: the one function whose argument is a name and that is a condition by itself."""
_FLAG_GIVES = "whether the GPU's job carries a flag that is known to slow it; a condition"


def group_function(name: str, *, of_condition: bool) -> GroupFunction:
    """What is computed for a group: of numbers, or of a condition as 1 and 0. Raises KeyError."""
    row = GROUP_FUNCTIONS[name]
    return GROUP_FUNCTIONS[row.of_condition] if of_condition else row


def all_functions() -> tuple[tuple[str, str], ...]:
    """How each function is written, and what it gives."""
    return (
        *((row.usage, row.gives) for row in WINDOW_FUNCTIONS.values()),
        *((row.usage, row.gives) for row in SCALAR_FUNCTIONS.values()),
        (f"{FLAG}(NAME)", _FLAG_GIVES),
        *((row.usage("peers"), row.gives) for row in GROUP_FUNCTIONS.values()),
    )
