"""Readings in, observations out: OFU and what follows from it, for one entity and window at a time.

Enters: a `Reading` (and that of the parent of a MIG instance). Leaves: an `Observation`.
"""

from otel_ofu.derive.deriver import Deriver
from otel_ofu.derive.settings import DeriverSettings

__all__ = ["Deriver", "DeriverSettings"]
