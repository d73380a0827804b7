"""Recent history of every entity, for rules."""

from otel_ofu.store.block import Block
from otel_ofu.store.folder import StateInUse, StateUnusable
from otel_ofu.store.retention import Retention
from otel_ofu.store.store import Store

__all__ = ["Block", "Retention", "StateInUse", "StateUnusable", "Store"]
