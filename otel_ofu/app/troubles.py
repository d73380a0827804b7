"""What is wrong with the sources, reported: logged once a cause, counted each time, `up` or not.

Enters: what one read of a source gave. Leaves: log lines, and counts of the agent's own metrics.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from otel_ofu.model import Trouble

log = logging.getLogger(__name__)

GOOD_READS = 3
"""So many reads without a trouble end it: one that comes and goes is one. Starting value."""
MOST_CAUSES = 256
"""Causes that are open at the same time; what is more is counted and not logged. Starting value."""
MOST_TARGETS = 256
"""Targets of a source in the metrics; the rest is counted as `other`. Starting value: above the
devices and endpoints that one agent reads."""
OTHER = "other"

Cause = tuple[str, str, str, str]
"""Source, target, reason, and the detail without its numbers: a duration is no new cause."""


class TroubleMeter(Protocol):
    """Where troubles are counted."""

    def troubled(self, source: str, target: str, reason: str) -> None: ...

    def answered(self, source: str, targets: Mapping[str, bool]) -> None: ...


class TroubleLog:
    """One line when a cause begins, one when it has ended. Belongs to one thread."""

    def __init__(self, meter: TroubleMeter) -> None:
        self._meter = meter
        self._open: dict[Cause, _OpenCause] = {}
        self._targets: dict[str, dict[str, bool]] = {}
        self._labels: dict[str, set[str]] = {}
        self._worked: set[str] = set()

    def update(
        self, source: str, troubles: Sequence[Trouble], targets: Mapping[str, bool], *, up: bool
    ) -> None:
        """One read of `source`; `up` is whether it gave anything at all.

        A source that does not report its targets is its own.
        """
        answers = self._answers(source, targets, up=up)
        self._meter.answered(source, answers)
        seen = {_cause(source, trouble): trouble for trouble in troubles}
        for cause, trouble in seen.items():
            self._meter.troubled(source, self._label(source, trouble.target), trouble.reason)
            self._begin(cause, trouble)
        if up:
            self._worked.add(source)
            self._end_others(source, seen, answers)

    def retain(self, sources: Collection[str]) -> None:
        """The other sources are not read any more; their troubles are forgotten."""
        for source in self._targets.keys() - set(sources):
            del self._targets[source]
            self._worked.discard(source)
            self._meter.answered(source, {})
        self._open = {cause: was for cause, was in self._open.items() if cause[0] in sources}

    def _answers(self, source: str, targets: Mapping[str, bool], *, up: bool) -> Mapping[str, bool]:
        """Where it does not report them, none of the targets that it had before answers."""
        if targets:
            found = {self._label(source, name): ok for name, ok in targets.items()}
        else:
            known = () if up else self._targets.get(source, ())
            found = dict.fromkeys(known or (source,), up)
        self._targets[source] = found
        return found

    def _label(self, source: str, target: str) -> str:
        """Never more than `MOST_TARGETS` over the agent's life: the SDK forgets none."""
        labels = self._labels.setdefault(source, set())
        if len(labels) < MOST_TARGETS:
            labels.add(target)
        return target if target in labels else OTHER

    def _begin(self, cause: Cause, trouble: Trouble) -> None:
        if cause in self._open:
            self._open[cause].good_reads = 0
        elif len(self._open) < MOST_CAUSES:
            self._open[cause] = _OpenCause(_text(cause[0], trouble))
            had_values = trouble.target == cause[0] and cause[0] in self._worked
            gaps = "; its values are gaps" if had_values else ""
            log.warning("%s%s", self._open[cause].text, gaps)

    def _end_others(
        self, source: str, seen: Mapping[Cause, Trouble], answers: Mapping[str, bool]
    ) -> None:
        """Another trouble of a target that does not answer does not end the one before it."""
        for cause, was in list(self._open.items()):
            if cause[0] != source or cause in seen or not answers.get(cause[1], True):
                continue
            was.good_reads += 1
            if was.good_reads >= GOOD_READS:
                del self._open[cause]
                log.info("resolved: %s", was.text)


@dataclass(slots=True)
class _OpenCause:
    text: str
    good_reads: int = 0


def _cause(source: str, trouble: Trouble) -> Cause:
    return source, trouble.target, trouble.reason, re.sub(r"\d+(?:\.\d+)?", "#", trouble.detail)


def _text(source: str, trouble: Trouble) -> str:
    where = source if trouble.target == source else f"{source}: {trouble.target}"
    return f"{where}: {trouble.detail or trouble.reason.replace('_', ' ')}"
