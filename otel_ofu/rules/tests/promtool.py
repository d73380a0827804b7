"""Tests in promtool's file format, on our engine.

Enters: a file with `rule_files` and `tests`. Leaves: one `TestResult` an `alert_rule_test`. Metrics
are named by their key (`ofu`) or as Prometheus does (`ofu_gpu_utilization_ratio`).
Source: https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from otel_ofu.catalog.prometheus_names import metric_name
from otel_ofu.catalog.registry import Metric, Registry
from otel_ofu.files.yaml import Steps, YamlFile, convert_usable, read_yaml
from otel_ofu.model import Attribute, Entity, EntityKind, Finding
from otel_ofu.model.errors import ConfigError
from otel_ofu.model.labels import entity_labels, label_name
from otel_ofu.rules.annotations import duration_words
from otel_ofu.rules.files.cases import MAX_SAMPLES
from otel_ofu.rules.files.load import load_rules
from otel_ofu.rules.files.mistakes import RuleMistakes
from otel_ofu.rules.files.rule import RuleSet
from otel_ofu.rules.language.names import nearest
from otel_ofu.rules.tests.run import RuleSimulation, SimulatedSeries, TestResult

IDS: Mapping[EntityKind, str] = {"gpu": "hw_id", "job": "ofu_job_id", "node": "host_name"}

_SERIES = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(.*)\})?\s*", re.DOTALL)
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_VALUES = re.compile(
    rf"(?:(?P<missing>_|stale)|(?P<first>-?{_NUMBER})(?P<step>[+-]{_NUMBER})?)(?:x(?P<times>[0-9]+))?"
)


class SeriesReader:
    """Collects series; ValueError has what is wrong with one."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._names = _prometheus_names(registry)
        self._attributes = {label_name(name): name for name in registry.attributes}
        self.entities: dict[str, Entity] = {}
        self.series: dict[tuple[str, str], list[float]] = {}

    def add(self, series: str, values: str) -> None:
        found = _SERIES.fullmatch(series)
        if not found:
            raise ValueError(f'{series!r} is not a series: write ofu{{hw_id="GPU-1"}}')
        labels = _parsed_labels(found[2] or "")
        key, metric = self._metric(found[1], labels)
        name = self._entity(metric, labels)
        self.series[name, key] = promtool_samples(values)

    def _metric(self, name: str, labels: Mapping[str, str]) -> tuple[str, Metric]:
        known = self._registry.metrics.get(name.partition(":")[0])
        if known is not None:
            return name, known
        for key in self._names.get(name, ()):
            metric = self._registry.metrics[key]
            fixed = {label_name(k): v for k, v in metric.attributes.items()}
            parts = [labels.get(label_name(k), "") for k in metric.labels]
            if fixed.items() <= labels.items() and all(parts):
                values = [part.removeprefix(metric.label_prefix) for part in parts]
                return ":".join([key, *values]), metric
        hint = nearest(name, [*self._registry.metrics, *self._names])
        raise ValueError(f"{name} with these labels is not a metric{hint}")

    def _entity(self, metric: Metric, labels: Mapping[str, str]) -> str:
        if metric.entity == "agent":
            raise ValueError(f"{metric.name} is about the agent itself")
        entity_id = labels.get(IDS[metric.entity])
        if not entity_id:
            raise ValueError(f"a series of a {metric.entity} needs the label {IDS[metric.entity]}")
        attributes: dict[str, Attribute] = {
            self._attributes.get(name, name): value for name, value in labels.items()
        }
        name = f"{metric.entity} {entity_id}"
        before = self.entities.get(name)
        together = {**(before.attributes if before else {}), **attributes}
        self.entities[name] = Entity(metric.entity, entity_id, together)
        return name


def promtool_samples(text: str) -> list[float]:
    """`1+2x3` is 1 3 5 7, `4x2` is 4 4 4, `_x2` and `stale` are missing. Raises ValueError."""
    values: list[float] = []
    for token in text.split():
        found = _VALUES.fullmatch(token)
        if not found:
            raise ValueError(
                f"{token!r} is not a list of samples: write 0.1x90, _x6 or 0.5+0.01x30"
            )
        times = int(found["times"] or 0)
        if len(values) + times >= MAX_SAMPLES:
            raise ValueError(f"more than {MAX_SAMPLES:,} samples, the most allowed")
        if found["missing"]:
            values += [math.nan] * max(1, times)
        else:
            first, step = float(found["first"]), float(found["step"] or 0)
            values += [first + step * i for i in range(times + 1)]
    return values


def _parsed_labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    at = 0
    while at < len(text.rstrip()):
        found = _LABEL.match(text, at)
        if not found:
            raise ValueError(f'{text!r} is not a list of labels: write name="value"')
        labels[found[1]] = found[2].replace('\\"', '"').replace("\\\\", "\\")
        at = found.end()
    return labels


def _prometheus_names(registry: Registry) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for key, metric in registry.metrics.items():
        name = metric_name(metric.name, metric.unit, metric.kind).metric
        names.setdefault(name, []).append(key)
    return names


class _PromtoolBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of the file: unknown keys are mistakes."""


class ExpectedAlert(_PromtoolBlock, frozen=True, kw_only=True):
    exp_labels: dict[str, str] = {}
    exp_annotations: dict[str, str] = {}


class AlertTest(_PromtoolBlock, frozen=True, kw_only=True):
    eval_time: str | int
    alertname: str
    exp_alerts: list[ExpectedAlert] = []


class InputSeries(_PromtoolBlock, frozen=True, kw_only=True):
    series: str
    values: str | int | float


class PromTest(_PromtoolBlock, frozen=True, kw_only=True):
    interval: str | int = "1m"
    name: str = ""
    input_series: list[InputSeries] = []
    alert_rule_test: list[AlertTest] = []


class PromFile(_PromtoolBlock, frozen=True, kw_only=True):
    rule_files: list[str]
    evaluation_interval: str | int = "1m"
    tests: list[PromTest]


def is_promtool_file(file: YamlFile) -> bool:
    """Whether this is a file of tests and not of rules."""
    return isinstance(file.tree, Mapping) and "tests" in file.tree


def run_promtool_file(path: str | Path, registry: Registry) -> list[TestResult]:
    """Runs every test of a file. Raises ConfigError with the positions of its mistakes.

    Rules are judged at the interval of their own group, which stands above `evaluation_interval`.
    """
    file = read_yaml(path)
    shape, problems = convert_usable(file, PromFile)
    mistakes = RuleMistakes(file, problems)
    rules = load_rules((Path(path).parent / name for name in shape.rule_files), registry)
    runs = [
        _TestBlock(mistakes, rules, registry, ("tests", i)).run(test)
        for i, test in enumerate(shape.tests)
    ]
    mistakes.duration(("evaluation_interval",), shape.evaluation_interval, 60.0)
    if mistakes.problems:
        raise ConfigError(mistakes.problems)
    return [result for results in runs for result in results]


@dataclass(frozen=True, slots=True)
class _TestBlock:
    """One block of tests: all of them are judged on the same series."""

    mistakes: RuleMistakes
    rules: RuleSet
    registry: Registry
    steps: Steps

    def run(self, test: PromTest) -> list[TestResult]:
        simulated = self._simulated(test)
        due = self._due(test)
        if self.mistakes.problems:
            return []
        length_s = max([simulated.length_s, *due.values()])
        long_enough = SimulatedSeries(
            simulated.step_s, simulated.entities, _lengthened(simulated, length_s)
        )
        return list(
            self._results(test, due, RuleSimulation(self.rules, long_enough, self.registry))
        )

    def _simulated(self, test: PromTest) -> SimulatedSeries:
        step_s = self.mistakes.duration((*self.steps, "interval"), test.interval, 60.0)
        inputs = SeriesReader(self.registry)
        for i, written in enumerate(test.input_series):
            steps = (*self.steps, "input_series", i)
            try:
                values = self.mistakes.file.scalars[
                    *steps, "values"
                ].value  # as written: 0x20 is no 32
                inputs.add(written.series, values)
            except ValueError as error:
                self.mistakes.add((*steps, "series"), str(error))
        return SimulatedSeries(step_s or 60.0, inputs.entities, inputs.series)

    def _due(self, test: PromTest) -> dict[int, float]:
        due: dict[int, float] = {}
        for i, alert in enumerate(test.alert_rule_test):
            steps = (*self.steps, "alert_rule_test", i)
            due[i] = self.mistakes.duration((*steps, "eval_time"), alert.eval_time, 0.0)
            if self.rules.find(alert.alertname) is None:
                self.mistakes.add((*steps, "alertname"), f"no rule {alert.alertname!r}")
        return due

    def _results(
        self, test: PromTest, due: Mapping[int, float], simulation: RuleSimulation
    ) -> Iterator[TestResult]:
        active: Sequence[Finding] = ()
        waiting = sorted(due, key=lambda i: due[i])
        for after_s in simulation.run():
            while waiting and due[waiting[0]] < after_s:
                yield self._result(test, waiting.pop(0), due, active)
            active = simulation.engine.active()
        while waiting:
            yield self._result(test, waiting.pop(0), due, active)

    def _result(
        self, test: PromTest, index: int, due: Mapping[int, float], active: Sequence[Finding]
    ) -> TestResult:
        alert = test.alert_rule_test[index]
        position = self.mistakes.position((*self.steps, "alert_rule_test", index))
        found = [finding for finding in active if finding.rule == alert.alertname]
        failures = tuple(_differences(alert, found))
        name = f"{test.name or 'test'} at {duration_words(due[index])}"
        return TestResult(alert.alertname, name, failures, position)


def _lengthened(
    simulated: SimulatedSeries, length_s: float
) -> dict[tuple[str, str], Sequence[float]]:
    """The same samples, and then nothing until the last instant that is asked for."""
    count = round(length_s / simulated.step_s) + 1
    nothing = float("nan")
    return {
        key: [*samples, *[nothing] * (count - len(samples))]
        for key, samples in simulated.series.items()
    }


def _differences(alert: AlertTest, found: Sequence[Finding]) -> Iterator[str]:
    left = list(found)
    for expected in alert.exp_alerts:
        match = next((finding for finding in left if _matches(expected, finding)), None)
        if match is None:
            there = "; ".join(str(_labels(finding)) for finding in left) or "none"
            yield f"expected {expected.exp_labels or 'an alert'}, firing: {there}"
        else:
            left.remove(match)
    if len(found) > len(alert.exp_alerts):
        yield f"expected {len(alert.exp_alerts)} to be firing, {len(found)} are"


def _matches(expected: ExpectedAlert, finding: Finding) -> bool:
    return expected.exp_labels.items() <= _labels(finding).items() and (
        expected.exp_annotations.items() <= finding.annotations.items()
    )


def _labels(finding: Finding) -> dict[str, str]:
    return {"alertname": finding.rule, **entity_labels(finding.entity), **finding.labels}
