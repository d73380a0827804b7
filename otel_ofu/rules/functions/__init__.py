"""The functions of the rule language: one row each, with its formula over NumPy and its PromQL.

Below the language and both engines, which read the rows. A new function is a row in `table.py`, and
a formula in `windows.py` or `groups.py` if none there is right.
"""

from otel_ofu.rules.functions.table import (
    FLAG,
    GROUP_FUNCTIONS,
    SCALAR_FUNCTIONS,
    WINDOW_FUNCTIONS,
    GroupFunction,
    MetricKind,
    ScalarFunction,
    WindowFunction,
    all_functions,
    group_function,
)

__all__ = [
    "FLAG",
    "GROUP_FUNCTIONS",
    "SCALAR_FUNCTIONS",
    "WINDOW_FUNCTIONS",
    "GroupFunction",
    "MetricKind",
    "ScalarFunction",
    "WindowFunction",
    "all_functions",
    "group_function",
]
