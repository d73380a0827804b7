"""Tests in promtool's file format, on our engine.

Enters: a file with `rule_files` and `tests`. Leaves: one `Result` an `alert_rule_test`. Metrics are
named by their key (`ofu`) or as Prometheus does (`ofu_gpu_utilization_ratio`).
Source: https://prometheus.io/docs/prometheus/latest/configuration/unit_testing_rules/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from otel_ofu.catalog.registry import Registry
from otel_ofu.files.yaml import Steps, YamlFile, convert, read_yaml
from otel_ofu.model import Finding
from otel_ofu.model.errors import ConfigError
from otel_ofu.model.labels import entity_labels
from otel_ofu.rules.annotations import duration_words
from otel_ofu.rules.files.load import load_rules
from otel_ofu.rules.files.mistakes import Mistakes
from otel_ofu.rules.files.rule import RuleSet
from otel_ofu.rules.tests.inputs import SeriesReader
from otel_ofu.rules.tests.run import Result
from otel_ofu.rules.tests.world import Story, World


class _Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of the file: unknown keys are mistakes."""


class ExpectedAlert(_Block, frozen=True, kw_only=True):
    exp_labels: dict[str, str] = {}
    exp_annotations: dict[str, str] = {}


class AlertTest(_Block, frozen=True, kw_only=True):
    eval_time: str | int
    alertname: str
    exp_alerts: list[ExpectedAlert] = []


class InputSeries(_Block, frozen=True, kw_only=True):
    series: str
    values: str | int | float


class PromTest(_Block, frozen=True, kw_only=True):
    interval: str | int = "1m"
    name: str = ""
    input_series: list[InputSeries] = []
    alert_rule_test: list[AlertTest] = []


class PromFile(_Block, frozen=True, kw_only=True):
    rule_files: list[str]
    evaluation_interval: str | int = "1m"
    tests: list[PromTest]


def is_promtool_file(file: YamlFile) -> bool:
    """Whether this is a file of tests and not of rules."""
    return isinstance(file.tree, Mapping) and "tests" in file.tree


def run_promtool_file(path: str | Path, registry: Registry) -> list[Result]:
    """Runs every test of a file. Raises ConfigError with the positions of its mistakes.

    Rules are judged at the interval of their own group, which stands above `evaluation_interval`.
    """
    file = read_yaml(path)
    shape = convert(file, PromFile)
    mistakes = Mistakes(file)
    rules = load_rules((Path(path).parent / name for name in shape.rule_files), registry)
    runs = [
        _Run(mistakes, rules, registry, ("tests", i)).run(test)
        for i, test in enumerate(shape.tests)
    ]
    mistakes.duration(("evaluation_interval",), shape.evaluation_interval, 60.0)
    if mistakes.problems:
        raise ConfigError(mistakes.problems)
    return [result for results in runs for result in results]


@dataclass(frozen=True, slots=True)
class _Run:
    """One block of tests: all of them look at the same story."""

    mistakes: Mistakes
    rules: RuleSet
    registry: Registry
    steps: Steps

    def run(self, test: PromTest) -> list[Result]:
        story = self._story(test)
        due = self._due(test)
        if self.mistakes.problems:
            return []
        length_s = max([story.length_s, *due.values()])
        long_enough = Story(story.step_s, story.entities, _lengthened(story, length_s))
        return list(self._results(test, due, World(self.rules, long_enough, self.registry)))

    def _story(self, test: PromTest) -> Story:
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
        return Story(step_s or 60.0, inputs.entities, inputs.series)

    def _due(self, test: PromTest) -> dict[int, float]:
        due: dict[int, float] = {}
        for i, alert in enumerate(test.alert_rule_test):
            steps = (*self.steps, "alert_rule_test", i)
            due[i] = self.mistakes.duration((*steps, "eval_time"), alert.eval_time, 0.0)
            if self.rules.find(alert.alertname) is None:
                self.mistakes.add((*steps, "alertname"), f"no rule {alert.alertname!r}")
        return due

    def _results(self, test: PromTest, due: Mapping[int, float], world: World) -> Iterator[Result]:
        active: Sequence[Finding] = ()
        waiting = sorted(due, key=lambda i: due[i])
        for after_s in world.run():
            while waiting and due[waiting[0]] < after_s:
                yield self._result(test, waiting.pop(0), due, active)
            active = world.engine.active()
        while waiting:
            yield self._result(test, waiting.pop(0), due, active)

    def _result(
        self, test: PromTest, index: int, due: Mapping[int, float], active: Sequence[Finding]
    ) -> Result:
        alert = test.alert_rule_test[index]
        position = self.mistakes.position((*self.steps, "alert_rule_test", index))
        found = [finding for finding in active if finding.rule == alert.alertname]
        failures = tuple(_differences(alert, found))
        name = f"{test.name or 'test'} at {duration_words(due[index])}"
        return Result(alert.alertname, name, failures, position)


def _lengthened(story: Story, length_s: float) -> dict[tuple[str, str], Sequence[float]]:
    """The same samples, and then nothing until the last instant that is asked for."""
    count = round(length_s / story.step_s) + 1
    nothing = float("nan")
    return {
        key: [*samples, *[nothing] * (count - len(samples))]
        for key, samples in story.series.items()
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
