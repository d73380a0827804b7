"""How many examples a property runs over: the profile decides, a test only says how many times as
many it needs.

In: HYPOTHESIS_PROFILE (`quick`, `full`), else `full` where CI=true and `quick` elsewhere.
Out: the profile in force, and settings relative to it.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

QUICK_EXAMPLES = 20
FULL_EXAMPLES = 100
"""Hypothesis' own default; `.ci/run` takes it, a person's `make test` a fifth."""


def load_profile() -> None:
    """One profile for all properties: on a loaded machine time decides nothing."""
    timeless = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("quick", timeless, max_examples=QUICK_EXAMPLES)
    settings.register_profile(
        "full",
        timeless,
        max_examples=FULL_EXAMPLES,
        derandomize=True,
        database=None,
        print_blob=True,
    )
    in_ci = os.environ.get("CI", "").lower() in {"1", "true"}
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("full" if in_ci else "quick"))


def examples(times: float) -> settings:
    """Decorates a property: `times` as many examples as the profile runs, at least 5."""
    return settings(max_examples=max(5, round(times * settings().max_examples)))
