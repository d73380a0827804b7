"""The nouns. Plain frozen values; no I/O, no vendor library.

Numbers carry their unit in the name (`_s`, `_hz`, `_bytes`); none means a ratio 0..1.
All times are Unix seconds as float.
"""

from otel_ofu.model.finding import (
    SEVERITIES,
    Evidence,
    Finding,
    FindingChange,
    FindingState,
    RankedCause,
    Reason,
    Severity,
)
from otel_ofu.model.observation import Attribute, Entity, EntityKind, Observation
from otel_ofu.model.owner import Owner
from otel_ofu.model.reading import Device, Gap, GapReason, Reading, Window
from otel_ofu.model.trouble import Trouble

__all__ = [
    "SEVERITIES",
    "Attribute",
    "Device",
    "Entity",
    "EntityKind",
    "Evidence",
    "Finding",
    "FindingChange",
    "FindingState",
    "Gap",
    "GapReason",
    "Observation",
    "Owner",
    "RankedCause",
    "Reading",
    "Reason",
    "Severity",
    "Trouble",
    "Window",
]
