"""Stories: which trouble, when, on which GPUs; and what it does to the job.

Enters: `scenarios.yaml` of this package, or a `Scenario` built in code. Leaves: the demands
(job.FIELD x GPUs) at a time, and the true troubles of that time. All times count from the
start of the story.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec
import numpy as np
import yaml

from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.sources.demo.job import FIELD, Array, healthy_demand


class QuantityChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to one field: `set`, or else `value * scale + add`."""

    set: float | None = None
    scale: float = 1.0
    add: float = 0.0

    def apply(self, value: Array) -> Array:
        return (
            np.full_like(value, self.set) if self.set is not None else value * self.scale + self.add
        )


class ScenarioTrouble(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that goes wrong; scenarios.yaml explains the fields."""

    cause: str
    title: str
    changes: dict[str, QuantityChange]
    flags: dict[str, str] = {}


class TroubleSpan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trouble over a time; scenarios.yaml explains the fields."""

    trouble: str
    start_s: float
    end_s: float | None = None
    gpus: list[int] | None = None
    period_s: float | None = None
    share: float = 1.0
    changes: dict[str, QuantityChange] = {}

    def covers(self, at_s: float) -> bool:
        """Whether this is within the time of the trouble, also where it comes and goes."""
        return at_s >= self.start_s and (self.end_s is None or at_s < self.end_s)

    def active(self, at_s: float) -> bool:
        if not self.covers(at_s):
            return False
        return self.period_s is None or (at_s - self.start_s) % self.period_s < (
            self.share * self.period_s
        )


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A story; scenarios.yaml explains the fields."""

    spans: list[TroubleSpan]
    repeat_s: float | None = None
    noise: float = 0.02


class ScenarioLibrary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All troubles and stories of scenarios.yaml."""

    troubles: dict[str, ScenarioTrouble]
    scenarios: dict[str, Scenario]


@dataclass(frozen=True, slots=True)
class TroubleFact:
    """A trouble that is truly there: the answer that a diagnosis should find.

    `cause` is `healthy` for a phase that only looks like trouble. `gpus` are indices.
    """

    trouble: str
    cause: str
    title: str
    gpus: tuple[int, ...]
    flags: Mapping[str, str]


class ScenarioTimeline:
    """A scenario on a number of GPUs. Raises `ConfigError` for troubles or GPUs that are not."""

    def __init__(
        self, scenario: Scenario, gpus: int, troubles: Mapping[str, ScenarioTrouble]
    ) -> None:
        _check(scenario, gpus, troubles)
        self._scenario = scenario
        self._gpus = gpus
        self._troubles = troubles
        self._demands: dict[tuple[int, ...], Array] = {}

    @property
    def noise(self) -> float:
        return self._scenario.noise

    def demand(self, at_s: float) -> Array:
        """job.FIELD x GPUs at `at_s`; shared between calls, not to be changed."""
        active = self._active(at_s)
        if active not in self._demands:
            self._demands[active] = self._build(active)
        return self._demands[active]

    def facts(self, at_s: float) -> tuple[TroubleFact, ...]:
        """The troubles at `at_s`, in the order of the scenario."""
        return tuple(self._fact(self._scenario.spans[n]) for n in self._active(at_s))

    def titles(self, at_s: float) -> tuple[str, ...]:
        """The troubles in whose time `at_s` is: one that comes and goes stays in the list."""
        within_s = self._within_s(at_s)
        spans = (span for span in self._scenario.spans if span.covers(within_s))
        return tuple(dict.fromkeys(self._troubles[span.trouble].title for span in spans))

    def _active(self, at_s: float) -> tuple[int, ...]:
        within_s = self._within_s(at_s)
        return tuple(n for n, s in enumerate(self._scenario.spans) if s.active(within_s))

    def _within_s(self, at_s: float) -> float:
        repeat_s = self._scenario.repeat_s
        return at_s if repeat_s is None else at_s % repeat_s

    def _build(self, active: Sequence[int]) -> Array:
        demand = healthy_demand(self._gpus)
        for span in (self._scenario.spans[n] for n in active):
            gpus = list(self._touched(span))
            for name, change in (self._troubles[span.trouble].changes | span.changes).items():
                demand[FIELD[name], gpus] = change.apply(demand[FIELD[name], gpus])
        return demand

    def _touched(self, span: TroubleSpan) -> tuple[int, ...]:
        return tuple(range(self._gpus)) if span.gpus is None else tuple(span.gpus)

    def _fact(self, span: TroubleSpan) -> TroubleFact:
        trouble = self._troubles[span.trouble]
        return TroubleFact(
            span.trouble, trouble.cause, trouble.title, self._touched(span), trouble.flags
        )


@cache
def load_library() -> ScenarioLibrary:
    """The stories of this package; parsed once."""
    text = files("otel_ofu.sources.demo").joinpath("scenarios.yaml").read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), ScenarioLibrary)


def named(name: str) -> Scenario:
    """A scenario of this package. Raises `ConfigError` with the names that there are."""
    scenarios = load_library().scenarios
    if name not in scenarios:
        known = ", ".join(scenarios)
        raise ConfigError([Problem("demo", 0, 0, f"no scenario {name!r}; known: {known}")])
    return scenarios[name]


def _check(scenario: Scenario, gpus: int, troubles: Mapping[str, ScenarioTrouble]) -> None:
    problems = [p for n, span in enumerate(scenario.spans) for p in _wrong(n, span, gpus, troubles)]
    if gpus < 1:
        problems.append(f"{gpus} GPUs; at least 1")
    if not 0 <= scenario.noise < 1:
        problems.append(f"noise {scenario.noise:g}; 0 to below 1")
    if scenario.repeat_s is not None and scenario.repeat_s <= 0:
        problems.append(f"repeat_s {scenario.repeat_s:g}; above 0")
    if problems:
        raise ConfigError([Problem("demo", 0, 0, text) for text in problems])


def _wrong(
    n: int, span: TroubleSpan, gpus: int, troubles: Mapping[str, ScenarioTrouble]
) -> list[str]:
    where = f"span {n + 1} ({span.trouble})"
    found = []
    if span.trouble not in troubles:
        found.append(f"{where}: no such trouble; known: {', '.join(troubles)}")
    if span.period_s is not None and span.period_s <= 0:
        found.append(f"{where}: period_s {span.period_s:g}; above 0")
    strangers = [gpu for gpu in span.gpus or () if not 0 <= gpu < gpus]
    found += [f"{where}: no GPU {gpu} among {gpus}" for gpu in strangers]
    fields = set(span.changes) | set(troubles[span.trouble].changes if not found else ())
    found += [f"{where}: no field {name!r}" for name in sorted(fields - set(FIELD))]
    return found
