"""A `Change` as an OpenTelemetry event: name, severity, text for people, flat attributes.

Enters: a change, and what makes an event of the exporter's own type. Leaves: that event.
Source: OpenTelemetry semantic conventions 1.44, docs/general/events.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from otel_ofu.model import Attribute, Entity
from otel_ofu.rules.files.rule import Severity
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import FlagCondition, Latest, Over, walk
from otel_ofu.rules.lifecycle.change import Change
from otel_ofu.rules.verdicts import Observed

INFO = 9
SEVERITY_NUMBERS: Mapping[Severity, int] = {"info": 9, "warning": 13, "error": 17, "critical": 17}

E_co = TypeVar("E_co", covariant=True)


class EventMaker(Protocol[E_co]):
    """Such as `otel_ofu.model.event.Event`."""

    def __call__(  # noqa: PLR0913 - the fields of an event
        self,
        *,
        name: str,
        severity_number: int,
        body: str,
        time_s: float,
        attributes: Mapping[str, Attribute],
        entity: Entity | None,
    ) -> E_co: ...


def finding_event(change: Change, make: EventMaker[E_co]) -> E_co:
    """The event of a change. An end is INFO, all else has the severity of the rule."""
    ended = change.kind == "resolved"
    return make(
        name=f"ofu.finding.{change.kind}",
        severity_number=INFO if ended else SEVERITY_NUMBERS[change.severity],
        body=body(change),
        time_s=change.at_s,
        attributes=dict(_attributes(change)),
        entity=change.entity,
    )


def body(change: Change) -> str:
    """One line for people."""
    whom = change.entity.id if change.entity else f"{change.count} {change.each}s"
    text = change.annotations.get("summary") or f"{change.rule} on {whom}"
    if change.kind != "resolved":
        return text
    return f"{change.rule} on {whom} ended: {change.reason.replace('_', ' ')}"


def _attributes(change: Change) -> Iterator[tuple[str, Attribute]]:
    yield "ofu.finding.id", change.fingerprint
    yield "ofu.rule.id", change.rule
    yield "ofu.rule.shadow", change.shadow
    yield "ofu.finding.severity", change.severity
    yield "ofu.finding.state", "resolved" if change.kind == "resolved" else "firing"
    yield "ofu.finding.start_time", _time(change.since_s)
    yield "ofu.finding.fired_time", _time(change.fired_s)
    yield "ofu.finding.count", change.count
    yield "ofu.finding.summary", body(change)
    if change.reason:
        yield "ofu.finding.reason", change.reason
    if change.link:
        yield "ofu.finding.link", change.link
    for name, text in change.labels.items():
        yield f"ofu.finding.label.{name}", text
    for name, text in change.annotations.items():
        yield f"ofu.finding.annotation.{name}", text
    yield from _evidence(change)


def _evidence(change: Change) -> Iterator[tuple[str, Attribute]]:
    if not change.evidence:
        return
    yield "ofu.evidence.condition", to_text(change.evidence[0].node)
    for name, number in (
        ("value", change.value),
        ("threshold", change.threshold),
        ("window", change.window_s),
        ("coverage", change.coverage),
    ):
        if number is not None:
            yield f"ofu.evidence.{name}", number
    for observed in reversed(change.evidence):  # of two on one metric the first counts
        if not math.isnan(observed.value):
            yield f"ofu.evidence.{_metric(observed)}", observed.value


def _metric(observed: Observed) -> str:
    """The metric that a comparison is about: the first in it."""
    parts = (p for p in walk(observed.node) if isinstance(p, Latest | Over | FlagCondition))
    return next((part.metric.replace(":", ".") for part in parts), "constant")


def _time(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
