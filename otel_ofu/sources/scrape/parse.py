"""The Prometheus text format, as exporters write it and as they should.

Enters: the text of a page, and the metric names that matter. Leaves: a `MetricsPage` of samples.
What cannot be read becomes a `LineProblem`, and the rest goes on. Linear in the text.

A line is read strictly first. Label values that were not escaped are read as what they can only
mean; a value that would swallow another label is a fault instead.

Labels are parsed only for wanted names, and once for each distinct block of labels: exporters
repeat the block of a GPU for every metric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

EXCERPT_CHARACTERS = 120
MOST_PROBLEMS = 100
"""So many faults of a page are kept; all are counted."""
OTHER_NAMES = 5
"""So many unwanted names are kept, to show what the page is about."""

_BLANKS = " \t\r"
_ESCAPE = re.compile(r'\\([\\n"])')
_PLAIN = {"\\": "\\", "n": "\n", '"': '"'}
_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_LABEL_NAME = re.compile(r"\s*(?:([a-zA-Z_][a-zA-Z0-9_]*)|" + _QUOTED + r")\s*(=|,|$)")
_END = re.compile(r"\s*\Z")
_VALUE = re.compile(r"\s*" + _QUOTED + r"\s*(?:,|$)")
# An unescaped value that holds this has swallowed the next label: a comma is missing.
_SWALLOWED = re.compile(r'"[^"]*="')
# The part of a line in front of an exemplar. Source: OpenMetrics 1.0, section Exemplars.
_HEAD = re.compile(r'[^{"#]*+(?:\{(?:[^"}]|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+\})?[^{}"#]*+(?=#\s*\{)')
_BYTE_ORDER_MARK = "\ufeff"
_OPEN_METRICS_END = re.compile(r"^# EOF\s*\Z", re.MULTILINE)
# Where quotes and backslashes are not escaped (dcgm-exporter), a value ends at a quote that the
# next label, or nothing, follows.
_RAW_VALUE = re.compile(r'\s*"(.*?)"\s*(?:$|,(?=\s*(?:$|[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*")))')


class Sample(NamedTuple):
    """One line. `text` is the value as it stands there; `value` is NaN if that is no number.

    `line` is its number, from 1. `timestamp_s` is Unix time, None if the line has no stamp.
    """

    name: str
    labels: Mapping[str, str]
    value: float
    text: str
    timestamp_s: float | None = None
    line: int = 0


class LineProblem(NamedTuple):
    """A line that could not be read, cut to `EXCERPT_CHARACTERS`."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}"


@dataclass(frozen=True, slots=True)
class MetricsPage:
    """The wanted samples in the order of the page, and what went wrong.

    `malformed` counts the lines that could not be read, `problems` are the first of them. `cut_off`
    is the last line of a page that does not end with a line feed: it is not read, for a part of a
    number is another number. `others` are the first few names that were not wanted.
    """

    samples: tuple[Sample, ...]
    malformed: int = 0
    problems: tuple[LineProblem, ...] = ()
    cut_off: LineProblem | None = None
    others: tuple[str, ...] = ()


class _Malformed(Exception):  # noqa: N818 - never leaves this module
    """The line is not of the format."""


def parse(text: str, wanted: Container[str] | None = None) -> MetricsPage:
    """The samples of `text` whose names are `wanted`; all of them if None. Never raises."""
    return _Parser(wanted).page(text)


class _Parser:
    """The state of one page: label blocks already parsed, and the names passed over."""

    def __init__(self, wanted: Container[str] | None) -> None:
        self._wanted = wanted
        self._blocks: dict[str, tuple[str, Mapping[str, str]]] = {}
        self._others: dict[str, None] = {}
        self._samples: list[Sample] = []
        self._problems: list[LineProblem] = []
        self._malformed = 0
        self._stamps_per_s = 1000  # the text format counts milliseconds, OpenMetrics seconds

    def page(self, text: str) -> MetricsPage:
        if _OPEN_METRICS_END.search(text, max(0, len(text) - 16)):
            self._stamps_per_s = 1
        start, number = len(_BYTE_ORDER_MARK) * text.startswith(_BYTE_ORDER_MARK), 0
        # Not split(): a page of tens of megabytes would stand in memory twice. Not splitlines():
        # it breaks at characters that may stand in label values.
        while (end := text.find("\n", start)) >= 0:
            number += 1
            self._line(number, text[start:end].strip(_BLANKS))
            start = end + 1
        cut_off = self._cut_off(number + 1, text[start:].strip(_BLANKS))
        problems, others = tuple(self._problems), tuple(self._others)
        return MetricsPage(tuple(self._samples), self._malformed, problems, cut_off, others)

    def _line(self, number: int, line: str) -> None:
        try:
            sample = self._sample(line, number)
        except _Malformed:
            sample, readable = None, False
        else:
            readable = sample is None or _is_number(sample)
        if sample is not None:
            self._samples.append(sample)
        if not readable:
            self._malformed += 1
            if len(self._problems) < MOST_PROBLEMS:
                self._problems.append(_problem(number, line))

    def _cut_off(self, number: int, line: str) -> LineProblem | None:
        """The fault of a last line without end; a comment needs none."""
        if line.startswith("#"):
            return None
        return _problem(number, line) if line else None

    def _sample(self, line: str, number: int) -> Sample | None:
        if not line or line[0] == "#":
            return None
        if "#" in line and (head := _HEAD.match(line)):
            line = head[0]
        opening = line.find("{")
        if opening < 0:
            name, _, rest = line.replace("\t", " ").partition(" ")
            return self._valued(name, {}, rest, number) if self._wants(name) else None
        name = line[:opening].rstrip(_BLANKS)
        if name and not self._wants(name):
            return None
        closing = line.rfind("}")
        if closing < opening:
            raise _Malformed
        quoted, labels = self._block(line[opening + 1 : closing])
        if bool(name) == bool(quoted):
            raise _Malformed
        if quoted and not self._wants(quoted, is_quoted=True):
            return None
        return self._valued(name or quoted, labels, line[closing + 1 :], number)

    def _valued(self, name: str, labels: Mapping[str, str], rest: str, number: int) -> Sample:
        parts = rest.split()
        if not parts:
            raise _Malformed
        value = _number(parts[0])
        if value is None:
            return Sample(name, labels, math.nan, " ".join(parts), None, number)
        if len(parts) == 1:
            return Sample(name, labels, value, parts[0], None, number)
        stamp = _number(parts[1])
        if len(parts) > 2 or stamp is None or not math.isfinite(stamp):  # noqa: PLR2004 - value, timestamp
            raise _Malformed
        return Sample(name, labels, value, parts[0], stamp / self._stamps_per_s, number)

    def _wants(self, name: str, *, is_quoted: bool = False) -> bool:
        if self._wanted is None:
            if not is_quoted and _METRIC_NAME.fullmatch(name) is None:
                raise _Malformed
            return True
        if name in self._wanted:
            return True
        if len(self._others) < OTHER_NAMES:
            self._others[name] = None
        return False

    def _block(self, block: str) -> tuple[str, Mapping[str, str]]:
        """The quoted metric name, if there is one, and the labels of what stands in braces."""
        known = self._blocks.get(block)
        if known is None:
            try:
                known = _labels(block, _VALUE)
            except _Malformed:
                known = _labels(block, _RAW_VALUE)
            self._blocks[block] = known
        return known


def _problem(number: int, line: str) -> LineProblem:
    return LineProblem(number, line[:EXCERPT_CHARACTERS])


def _labels(block: str, value: re.Pattern[str]) -> tuple[str, Mapping[str, str]]:
    metric_name, labels = "", dict[str, str]()
    position = 0
    while _END.match(block, position) is None:
        label = _LABEL_NAME.match(block, position)
        if label is None:
            raise _Malformed
        name = label[1] or _unescaped(label[2] or "")
        position = label.end()
        if label[3] == "=":
            content = value.match(block, position)
            if content is None or name in labels:
                raise _Malformed
            raw = value is _RAW_VALUE
            if raw and _SWALLOWED.search(content[1]):
                raise _Malformed
            labels[name] = content[1] if raw else _unescaped(content[1])
            position = content.end()
        elif label[2] is None or metric_name or labels:
            raise _Malformed
        else:
            metric_name = name
    return metric_name, labels


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _PLAIN[match[1]], text) if "\\" in text else text


def _number(text: str) -> float | None:
    if "_" in text or not text.isascii():  # float() takes more than the format has
        return None
    try:
        return float(text)
    except ValueError:
        return None


def _is_number(sample: Sample) -> bool:
    return not math.isnan(sample.value) or sample.text.lstrip("+-").lower() == "nan"
