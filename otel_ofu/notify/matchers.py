"""Matchers on labels, as Alertmanager writes them: `severity="critical"`, `team=~"a|b"`.

Enters: texts. Leaves: predicates on labels; a label that is absent counts as empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, cast

from otel_ofu.notify.alert import written_label

Labels = Mapping[str, str]
Operator = Literal["=", "!=", "=~", "!~"]

_MATCHER = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.ASCII | re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}
_ALLOWED = 'allowed: label="value", != , =~ "regex" and !~'


@dataclass(frozen=True)
class Matcher:
    """`pattern` holds for the whole value."""

    name: str
    operator: Operator
    value: str

    def matches(self, labels: Labels) -> bool:
        return self.takes(labels.get(self.name, ""))

    def takes(self, value: str) -> bool:
        """Whether the label may have this value."""
        if self.operator in ("=", "!="):
            return (value == self.value) is (self.operator == "=")
        return bool(self._pattern.fullmatch(value)) is (self.operator == "=~")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.value)

    def __str__(self) -> str:
        value = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.name}{self.operator}"{value}"'


def parse_matcher(text: str) -> Matcher:
    """ValueError has what is wrong and what is allowed. `ofu.job.id` is `ofu_job_id`."""
    found = _MATCHER.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a matcher; {_ALLOWED}")
    name, operator, value = found.groups()
    matcher = Matcher(written_label(name), cast("Operator", operator), _unquoted(value, text))
    if operator in ("=~", "!~"):
        try:
            re.compile(matcher.value)
        except re.error as error:
            raise ValueError(f"{text!r}: not a regular expression: {error}") from None
    return matcher


def all_match(matchers: Iterable[Matcher], labels: Labels) -> bool:
    return all(matcher.matches(labels) for matcher in matchers)


def _unquoted(value: str, text: str) -> str:
    if '"' not in value:
        return value
    quoted = _QUOTED.fullmatch(value)
    if quoted is None:
        raise ValueError(f"{text!r} has quotes that do not pair; {_ALLOWED}")
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), quoted[1], flags=re.DOTALL)
