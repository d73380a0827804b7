"""Tests as rule files write them -> `RuleTest`, with the position of every mistake.

A key of `series` is `metric`, of the entity that the rule judges, or `entity.metric`: `gpu3.ofu`,
`gpu1-7.ofu` for several alike, `job.mfu`, `node.load`. All GPUs of a test are of one job and node.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.catalog.registry import Registry
from otel_ofu.files.yaml import Steps
from otel_ofu.model import EntityKind
from otel_ofu.rules.files.meaning import MeaningCheck
from otel_ofu.rules.files.mistakes import RuleMistakes
from otel_ofu.rules.files.rule import RuleTest
from otel_ofu.rules.files.shape import CaseShape, RuleShape
from otel_ofu.rules.functions import FLAG
from otel_ofu.rules.language.names import NameMistake, resolve
from otel_ofu.rules.language.ranges import SLACK, Ranges
from otel_ofu.rules.language.syntax import DEFAULT_LIMITS, Latest

# Starting value: a week at 10 s is 60,000.
MAX_SAMPLES = 100_000

_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?"
_TOKEN = re.compile(
    rf"(?:_|(?P<first>-?(?:{_NUMBER}))(?P<percent>%)?(?P<step>[+-](?:{_NUMBER}))?)"
    r"(?:x(?P<times>[0-9]{1,9}))?"
)


def samples(text: str) -> tuple[float, ...]:
    """All samples of a series. ValueError names the part that is wrong."""
    values: list[float] = []
    for token in text.split():
        found = _TOKEN.fullmatch(token)
        if not found or (found["step"] and found["percent"]):
            raise ValueError(
                f"{token[:40]!r} is not a list of samples: write 0.1x90, _x6 or 0.5+0.01x30"
            )
        times = int(found["times"] or 1)
        if len(values) + times > MAX_SAMPLES:
            raise ValueError(f"more than {MAX_SAMPLES:,} samples, the most allowed")
        values += _values(found, times)
    if not values:
        raise ValueError("no samples: write 0.1x90, _x6 or 0.5+0.01x30")
    return tuple(values)


def _values(found: re.Match[str], times: int) -> list[float]:
    if found["first"] is None:
        return [math.nan] * times
    first = float(found["first"]) / (100 if found["percent"] else 1)
    step = float(found["step"] or 0)
    return [first + step * i for i in range(times)]


# Starting value: peers of many racks; the numbers of GPUs have four digits at most.
MAX_GPUS = 1_024
JUDGED: Mapping[EntityKind, str] = {"gpu": "gpu0", "job": "job", "node": "node"}

_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_ENTITY = re.compile(r"(?:gpu([0-9]{1,4})(?:-([0-9]{1,4}))?|job|node)")


def entity_kind(name: str) -> EntityKind:
    """The kind of an entity of a test: `gpu3`, `job` or `node`."""
    return "job" if name == "job" else "node" if name == "node" else "gpu"


@dataclass(frozen=True, slots=True)
class CaseReader:
    """Reads the tests of one rule; mistakes go to `mistakes`."""

    mistakes: RuleMistakes
    meaning: MeaningCheck
    each: EntityKind
    interval_s: float

    def read_all(self, shape: RuleShape, steps: Steps) -> tuple[RuleTest, ...]:
        self._check_names(shape, steps)
        return tuple(self._case(test, (*steps, "tests", i)) for i, test in enumerate(shape.tests))

    def _check_names(self, shape: RuleShape, steps: Steps) -> None:
        names = [test.name for test in shape.tests]
        for i, name in enumerate(names):
            if name in names[:i]:
                self.mistakes.add((*steps, "tests", i, "name"), f"a test {name!r} is already there")

    def _case(self, test: CaseShape, steps: Steps) -> RuleTest:
        step_s = self.mistakes.duration((*steps, "step"), test.step, self.interval_s)
        if step_s < 1:
            self.mistakes.add((*steps, "step"), "a step is at least 1s")
            step_s = 1.0
        series: dict[tuple[str, str], tuple[float, ...]] = {}
        for key in test.series:
            series |= self._series(key, (*steps, "series", key))
        if not test.series:
            self.mistakes.add((*steps, "series"), "a test needs at least one series")
        return RuleTest(
            name=test.name,
            step_s=step_s,
            series=series,
            fires_at_s=self._instants(test.fires_at, (*steps, "fires_at")),
            resolves_at_s=self._instants(test.resolves_at, (*steps, "resolves_at")),
            causes=tuple(test.causes),
            position=self.mistakes.position(steps),
            hexadecimal=tuple(
                key for key in test.series if self._is_hexadecimal((*steps, "series", key))
            ),
        )

    def _is_hexadecimal(self, steps: Steps) -> bool:
        """Whether a series stands without quotes and is one number for YAML 1.1: `0x60` is 96."""
        node = self.mistakes.file.scalars.get(steps)
        return node is not None and not node.style and bool(_HEXADECIMAL.fullmatch(node.value))

    def _series(self, key: str, steps: Steps) -> Mapping[tuple[str, str], tuple[float, ...]]:
        head, dot, rest = key.partition(".")
        entity_match = _ENTITY.fullmatch(head) if dot else None
        metric = rest if entity_match else key
        names = _names(entity_match) if entity_match else (JUDGED[self.each],)
        try:
            values = samples(self.mistakes.file.scalars[steps].value)  # as written: 0x20 is no 32
        except ValueError as error:
            self.mistakes.add(steps, str(error))
            return {}
        if not names:
            self.mistakes.add_key(steps, f"{head}: GPUs count upwards, from 0 to {MAX_GPUS - 1}")
            return {}
        if wrong := self._wrong_name(metric, entity_kind(names[0])):
            self.mistakes.add_key(steps, wrong)
        elif wrong := _out_of_range(metric, values, self.meaning.registry):
            self.mistakes.add(steps, wrong)
        return {(name, metric): values for name in names}

    def _wrong_name(self, metric: str, kind: EntityKind) -> str:
        """A mistake in the name of a metric, or nothing."""
        base, _, label = metric.partition(":")
        if base == FLAG and label:
            return self.meaning.unknown_flag(label)
        try:
            resolve(metric, kind, self.meaning.registry)
        except NameMistake as mistake:
            return str(mistake)
        return ""

    def _instants(
        self, written: str | int | dict[str, str | int] | None, steps: Steps
    ) -> Mapping[str, float]:
        if written is None:
            return {}
        if not isinstance(written, dict):
            return {JUDGED[self.each]: self.mistakes.duration(steps, written, 0.0)}
        instants: dict[str, float] = {}
        for name, text in written.items():
            found = _ENTITY.fullmatch(name)
            if not found or entity_kind(name) != self.each or not _names(found):
                wanted = JUDGED[self.each]
                self.mistakes.add_key((*steps, name), f"{name!r} is no {self.each}: write {wanted}")
                continue
            at_s = self.mistakes.duration((*steps, name), text, 0.0)
            instants |= dict.fromkeys(_names(found), at_s)
        return instants


def _names(found: re.Match[str]) -> tuple[str, ...]:
    if found[1] is None:
        return (found[0],)
    first, last = int(found[1]), int(found[2] or found[1])
    return tuple(f"gpu{i}" for i in range(first, last + 1)) if last < MAX_GPUS else ()


# A series `0.3-0.05x9` ends at -5.6e-17.
_DIGITS = 12


def _out_of_range(metric: str, values: Sequence[float], registry: Registry) -> str:
    """That a source would refuse a sample, or nothing. NaN is a missing one."""
    if metric.partition(":")[0] not in registry.metrics:
        return ""
    most = Ranges(registry, DEFAULT_LIMITS).of(Latest(metric)).high
    known = (value for value in values if not math.isnan(value))
    value = next((v for v in known if v > most or registry.check(metric, round(v, _DIGITS))), None)
    if value is None:
        return ""
    gap = registry.check(metric, value)
    why = gap.detail if gap else f"{value:g}; at most {most / SLACK:g} makes sense"
    hint = ""
    if len(values) == 1 and value.is_integer() and value > 0:
        hint = f"; was it {int(value):#x}, which YAML tools read as a number? Put it in quotes"
    return f"a value out of the range of {metric}: {why}{hint}"
