"""A diagnosis as an OpenTelemetry event: name, severity, text for people, flat attributes.

Enters: a diagnosis, and what makes an event of the exporter's own type. Leaves: that event.
Source: OpenTelemetry semantic conventions 1.44, docs/general/events.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from otel_ofu.model import Attribute, Diagnosis, Entity, RankedCause, Severity

INFO = 9
# FATAL (21) is for a process that ends; nothing of a GPU does that to this one.
SEVERITY_NUMBERS: Mapping[Severity, int] = {"info": 9, "warning": 13, "error": 17, "critical": 17}
MOST_CAUSES = 3

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


def diagnosis_event(diagnosis: Diagnosis, make: EventMaker[E_co]) -> E_co:
    """The event. An end is INFO, all else has the severity of the rule."""
    ended = diagnosis.kind == "resolved"
    return make(
        name=f"ofu.finding.{diagnosis.kind}",
        severity_number=INFO if ended else SEVERITY_NUMBERS[diagnosis.severity],
        body=diagnosis.summary or diagnosis.rule,
        time_s=diagnosis.at_s,
        attributes=dict(_attributes(diagnosis)),
        entity=diagnosis.entity,
    )


def _attributes(said: Diagnosis) -> Iterator[tuple[str, Attribute]]:
    yield "ofu.finding.id", said.fingerprint
    yield "ofu.rule.id", said.rule
    yield "ofu.rule.shadow", said.shadow
    yield "ofu.finding.severity", said.severity
    yield "ofu.finding.state", "resolved" if said.kind == "resolved" else "firing"
    yield "ofu.finding.start_time", _time(said.since_s)
    yield "ofu.finding.count", said.count
    yield "ofu.finding.summary", said.summary
    for name, text in (("reason", said.reason), ("link", said.link)):
        if text:
            yield f"ofu.finding.{name}", text
    for name, text in said.labels.items():
        yield f"ofu.finding.label.{name}", text
    for name, text in said.annotations.items():
        yield f"ofu.finding.annotation.{name}", text
    yield from _numbers(said)
    for rank, cause in enumerate(said.causes[:MOST_CAUSES]):
        yield from _cause(
            cause, "ofu.finding.cause" if not rank else f"ofu.finding.cause.{rank + 1}"
        )


def _numbers(said: Diagnosis) -> Iterator[tuple[str, Attribute]]:
    if said.value is not None:
        yield "ofu.evidence.value", said.value
    if said.threshold is not None:
        yield "ofu.evidence.threshold", said.threshold
    for name, value in said.facts.items():
        yield f"ofu.evidence.{name}", value


def _cause(cause: RankedCause, prefix: str) -> Iterator[tuple[str, Attribute]]:
    """The first cause has the plain names; all are flat, as backends want them."""
    yield prefix, cause.id
    yield f"{prefix}.title", cause.title
    yield f"{prefix}.confidence", cause.score
    for name, texts in (
        ("evidence", cause.evidence),
        ("unchecked", cause.unchecked),
        ("next_steps", cause.next_steps),
    ):
        if texts:
            yield f"{prefix}.{name}", "\n".join(texts)


def _time(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
