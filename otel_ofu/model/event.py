"""What happened once, before it is encoded: an OpenTelemetry event as a plain value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from otel_ofu.model.observation import Attribute, Entity

INFO: Literal[9] = 9
WARN: Literal[13] = 13
ERROR: Literal[17] = 17
CRITICAL: Literal[18] = 18
"""ERROR2, as the log data model maps the critical of syslog. FATAL is for a process that ends."""


@dataclass(frozen=True, slots=True)
class Event:
    """`name` is unique and of low cardinality (`ofu.finding.opened`); `body` is for people only.

    `severity_number` is OpenTelemetry's, 1..24, `severity_text` the word for it. `entity` None
    speaks of the agent itself.
    Source: OpenTelemetry semantic conventions 1.44, docs/general/events.md.
    """

    name: str
    severity_number: int
    body: str
    time_s: float
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    entity: Entity | None = None
    severity_text: str = ""
