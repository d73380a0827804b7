"""A source of verdicts that follows a script, and what an engine found under it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from otel_ofu.catalog.registry import load_registry
from otel_ofu.model import Entity, Finding
from otel_ofu.model.clock import VirtualClock
from otel_ofu.rules.files import RuleSet, rules_from_text
from otel_ofu.rules.language.syntax import comparisons
from otel_ofu.rules.lifecycle.engine import Engine, EngineMeter
from otel_ofu.rules.lifecycle.storage import FindingStorage
from otel_ofu.rules.verdicts import (
    CLEAR,
    HOLDS,
    UNKNOWN,
    Comparison,
    Condition,
    Judgement,
    Roster,
    VerdictRound,
)

START_S = 1_000_000_020.0
ROUND_S = 30.0
LETTERS = {"h": HOLDS, "c": CLEAR, "?": UNKNOWN}

Emitted = tuple[str, str, str, float, str, int]
"""Kind, rule, entity, rounds since the start, reason, count."""


def gpu(number: int, job: str = "7") -> Entity:
    attributes = {"hw.id": f"gpu{number}", "ofu.job.id": job, "host.name": "n1"}
    return Entity("gpu", f"gpu{number}", attributes)


class Script:
    """Verdicts by round: `scripts[entity]` has a letter a round. All rules get the same.

    `clears` is the script of second conditions. `fail` makes questions on a metric raise.
    """

    def __init__(self, *scripts: str, clears: Sequence[str] = (), fail: str = "") -> None:
        self.scripts = scripts
        self.clears = clears
        self.fail = fail
        self.asked: list[float] = []

    def round(self, questions: Sequence[Condition], at_s: float) -> VerdictRound:
        self.asked.append(at_s)
        if self.fail and any(self.fail in q.expression.text for q in questions):
            raise ZeroDivisionError("scripted")
        number = round((at_s - START_S) / ROUND_S)
        present = [i for i, script in enumerate(self.scripts) if script[number : number + 1] != "-"]
        roster = Roster([gpu(i) if i in present else None for i in range(len(self.scripts))])
        return VerdictRound(at_s, {"gpu": roster}, [self._judgement(q, number) for q in questions])

    def _judgement(self, question: Condition, number: int) -> Judgement:
        second = "sm_clock" in question.expression.text
        scripts = self.clears if second else self.scripts
        letters = [script[number] if number < len(script) else "?" for script in scripts]
        verdicts = np.array([LETTERS.get(letter, UNKNOWN) for letter in letters], np.int8)
        node = comparisons(question.expression.root)[0]
        values = np.where(verdicts == UNKNOWN, math.nan, 0.1 + number).astype(np.float32)
        half = np.full(len(values), 0.5, np.float32)
        return Judgement(
            question, verdicts, [Comparison(node, verdicts, values, half, 600.0, [half])]
        )


def rules(text: str = "", *, name: str = "LowOfu", expr: str = "avg(ofu, 10m) < 15%") -> RuleSet:
    """One rule with more lines of YAML."""
    lines = "".join(f"\n        {line}" for line in text.splitlines())
    return rules_from_text(
        f"""
groups:
  - name: g
    rules:
      - alert: {name}
        each: gpu
        expr: {expr}{lines}
""",
        load_registry(),
    )


class Run:
    """One engine over a script, round after round; it can be closed and opened again."""

    def __init__(
        self,
        rule_set: RuleSet,
        script: Script,
        path: Path | None = None,
        meter: EngineMeter | None = None,
    ) -> None:
        self.rules = rule_set
        self.script = script
        self.path = path
        self.meter = meter
        self.clock = VirtualClock(START_S)
        self.findings: list[Finding] = []
        self.number = 0
        self.engine = self._open()

    def _open(self) -> Engine:
        return Engine(
            self.rules,
            self.script,
            self.findings.extend,
            storage=FindingStorage(self.path),
            clock=self.clock,
            meter=self.meter,
        )

    def live(self, rounds: int = 1) -> Run:
        for _ in range(rounds):
            now_s = START_S + self.number * ROUND_S
            self.clock.set(now_s)
            self.engine.tick(now_s)
            self.number += 1
        return self

    def restart(self) -> Run:
        self.engine.close()
        self.engine = self._open()
        return self

    @property
    def emitted(self) -> list[Emitted]:
        return [
            (
                c.kind,
                c.rule,
                c.entity.id if c.entity else "",
                (c.at_s - START_S) / ROUND_S,
                c.reason,
                c.count,
            )
            for c in self.findings
        ]
