"""Recent history of every entity, for rules."""

from otel_ofu.store.retention import Retention
from otel_ofu.store.series import SampleBlock
from otel_ofu.store.store import Store
from otel_ofu.store.table import StateInUseError, StateUnusableError

__all__ = ["Retention", "SampleBlock", "StateInUseError", "StateUnusableError", "Store"]
