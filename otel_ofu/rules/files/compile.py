"""One rule of a file -> a checked `Rule`; what is wrong goes to `mistakes`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import msgspec

from otel_ofu.catalog.registry import Registry
from otel_ofu.files.yaml import Steps, convert
from otel_ofu.model import SEVERITIES, EntityKind
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.model.labels import label_name
from otel_ofu.rules.annotations import Template, TemplateMistake, parse_template
from otel_ofu.rules.files.cases import CaseReader
from otel_ofu.rules.files.meaning import MeaningCheck
from otel_ofu.rules.files.mistakes import RuleMistakes, condition_in
from otel_ofu.rules.files.rule import SEVERITY, Rule, RuleTiming, SilenceCondition
from otel_ofu.rules.files.shape import RuleShape
from otel_ofu.rules.language.names import nearest
from otel_ofu.rules.language.ranges import Ranges
from otel_ofu.rules.language.spans import never_clears
from otel_ofu.rules.language.syntax import DataLimits, Expression
from otel_ofu.store.retention import DAY_S as FORGET_S

# Starting value: a few lost rounds do not end a finding, two and a half minutes at 30 s do.
MISSING_INTERVALS = 5
# Starting value: the largest fleet that a round is measured with has 100,000 GPUs in many jobs.
MAX_PEERS = 10_000
_RULE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TAKEN = ("alertname",)


@dataclass(frozen=True, slots=True)
class RuleContext:
    """What rules are checked against. `causes`, `flags` None: any name of one goes."""

    registry: Registry
    causes: Collection[str] | None = None
    flags: Collection[str] | None = None

    @property
    def entity_labels(self) -> frozenset[str]:
        """The labels of entities that templates may name."""
        defined = self.registry.attributes
        return frozenset(label_name(name) for name, a in defined.items() if a.where != "point")


@dataclass(frozen=True, slots=True)
class RuleReader:
    """Reads the rules of one group."""

    mistakes: RuleMistakes
    context: RuleContext
    interval_s: float

    def read(self, steps: Steps) -> Rule | None:
        """None after mistakes that leave no rule; all else in it is checked all the same."""
        try:
            shape = convert(self.mistakes.file, RuleShape, steps)
        except ConfigError as error:
            self.mistakes.take(error)
            fewest: list[Problem] = min(self._mistakes_of_rest(steps), key=len)
            self.mistakes.problems += fewest
            return None
        return self._rule(shape, steps)

    def _mistakes_of_rest(self, steps: Steps) -> Iterator[list[Problem]]:
        """What else is wrong, for the kind of entity that is given; without one, for each kind."""
        rest = self._rest(steps)
        for each in [rest["each"]] if "each" in rest else get_args(EntityKind):
            mistakes = RuleMistakes(self.mistakes.file)
            shape = msgspec.convert({**rest, "each": each}, RuleShape)
            replace(self, mistakes=mistakes)._rule(shape, steps)  # noqa: SLF001 - its own class
            yield mistakes.problems

    def _rest(self, steps: Steps) -> dict[str, Any]:
        """What is left of a rule without its parts that are of the wrong type."""
        tree: Any = self.mistakes.file.tree
        for step in steps:
            tree = tree[step]
        good: dict[str, Any] = {"alert": "unnamed"}
        for field in msgspec.structs.fields(RuleShape):
            try:
                good[field.encode_name] = msgspec.to_builtins(
                    msgspec.convert(tree[field.encode_name], field.type)
                )
            except (KeyError, msgspec.ValidationError):
                continue
        return good

    def _rule(self, shape: RuleShape, steps: Steps) -> Rule | None:
        self._check(shape, steps)
        limits = self._limits(shape, steps)
        condition = self._condition(shape, limits, steps)
        known = self.context.entity_labels
        labels = self._templates(shape.labels, (*steps, "labels"), known)
        shown = known | labels.keys()
        meaning = MeaningCheck(self.context.registry, self.context.flags)
        cases = CaseReader(self.mistakes, meaning, shape.each, self.interval_s)
        clear = self._clear(shape, condition, limits, steps)
        rule = Rule(
            name=shape.alert,
            each=shape.each,
            condition=condition or SilenceCondition(0.0),
            clear=clear,
            timing=self._timing(shape, steps),
            limits=limits,
            limit=shape.limit,
            labels=labels,
            annotations=self._templates(shape.annotations, (*steps, "annotations"), shown),
            causes=tuple(shape.causes),
            shadow=shape.shadow,
            link=shape.link,
            tests=cases.read_all(shape, steps),
            position=self.mistakes.position(steps),
        )
        return rule if condition else None

    def _condition(
        self, shape: RuleShape, limits: DataLimits, steps: Steps
    ) -> Expression | SilenceCondition | None:
        if bool(shape.expr) == (shape.silent_for is not None):
            self.mistakes.add(steps, "a rule has either expr or silent_for")
            return None
        if shape.expr:
            return self._expression(shape.each, limits, (*steps, "expr"))
        if shape.clear:
            self.mistakes.add_key((*steps, "clear"), "clear goes with expr, not with silent_for")
        after_s = self.mistakes.duration((*steps, "silent_for"), shape.silent_for, self.interval_s)
        if after_s < self.interval_s:
            self.mistakes.add((*steps, "silent_for"), "shorter than the interval of the group")
        if after_s >= FORGET_S:
            message = "never holds: what was silent for a day is forgotten; write less than 24h"
            self.mistakes.add((*steps, "silent_for"), message)
        return SilenceCondition(after_s)

    def _clear(
        self,
        shape: RuleShape,
        condition: Expression | SilenceCondition | None,
        limits: DataLimits,
        steps: Steps,
    ) -> Expression | None:
        if not shape.clear:
            return None
        clear = self._expression(shape.each, limits, (*steps, "clear"))
        ranges = Ranges(self.context.registry, limits)
        if clear and isinstance(condition, Expression) and never_clears(condition, clear, ranges):
            message = "it never ends: clear holds only where expr does"
            self.mistakes.add((*steps, "clear"), message)
        return clear

    def _expression(self, each: EntityKind, limits: DataLimits, steps: Steps) -> Expression | None:
        """None after a mistake in the text; those in the meaning are noted."""
        try:
            found = condition_in(self.mistakes.file, steps, each, self.context.registry)
        except ConfigError as error:
            self.mistakes.take(error)
            return None
        check = MeaningCheck(self.context.registry, self.context.flags)
        for mistake in check.mistakes(found, limits):
            self.mistakes.add_in(steps, mistake.span.offset, mistake.message)
        return found

    def _timing(self, shape: RuleShape, steps: Steps) -> RuleTiming:
        note = self.mistakes.duration
        missing_s = MISSING_INTERVALS * self.interval_s
        return RuleTiming(
            note((*steps, "for"), shape.for_, 0.0),
            note((*steps, "keep_firing_for"), shape.keep_firing_for, 0.0),
            note((*steps, "missing_timeout"), shape.missing_timeout, missing_s),
        )

    def _limits(self, shape: RuleShape, steps: Steps) -> DataLimits:
        if not 1 <= shape.min_peers <= MAX_PEERS:
            self.mistakes.add((*steps, "min_peers"), f"from 1 to {MAX_PEERS:,} peers")
        if shape.limit < 0:
            self.mistakes.add((*steps, "limit"), "a limit is 0 for none, or more")
        coverage = self.mistakes.share((*steps, "min_coverage"), shape.min_coverage)
        return DataLimits(coverage, shape.min_peers)

    def _check(self, shape: RuleShape, steps: Steps) -> None:
        if not _RULE_NAME.fullmatch(shape.alert):
            message = "a name has letters, digits and _ only, at most 100, and no digit in front"
            self.mistakes.add((*steps, "alert"), message)
        if shape.link and not shape.link.startswith(("https://", "http://")):
            self.mistakes.add((*steps, "link"), "a link begins with https:// or http://")
        for name in shape.labels:
            if not _LABEL_NAME.fullmatch(name) or name in _TAKEN:
                self.mistakes.add_key((*steps, "labels", name), f"{name!r} cannot be a label")
        severity = shape.labels.get(SEVERITY)
        if severity is not None and severity not in SEVERITIES:
            message = f"unknown severity {severity!r}; one of: {', '.join(SEVERITIES)}"
            self.mistakes.add((*steps, "labels", SEVERITY), message)
        self._check_causes(shape, steps)

    def _check_causes(self, shape: RuleShape, steps: Steps) -> None:
        known = self.context.causes
        for i, cause in enumerate(shape.causes):
            if known is not None and cause not in known:
                message = f"unknown cause {cause!r}{nearest(cause, known)}"
                self.mistakes.add((*steps, "causes", i), message)

    def _templates(
        self, texts: Mapping[str, str], steps: Steps, known: Collection[str]
    ) -> Mapping[str, Template]:
        templates: dict[str, Template] = {}
        for name, text in texts.items():
            try:
                template = parse_template(text, known)
            except TemplateMistake as mistake:
                self.mistakes.add_in((*steps, name), mistake.offset, mistake.message)
                continue
            templates[name] = template
            if "labels" in steps and any(not p.label for p in template.placeholders):
                message = "a label must not change: only $labels is allowed"
                self.mistakes.add((*steps, name), message)
        return templates
