"""What a user may say about what else is read on a node: the block `evidence`."""

from __future__ import annotations

from otel_ofu.evidence.flags.settings import FlagSettings
from otel_ofu.files.settings import Settings


class HostSettings(Settings, frozen=True, kw_only=True):
    """Load of this node."""

    enabled: bool = True


class EvidenceSettings(Settings, frozen=True, kw_only=True):
    """Flags of processes, load of the node."""

    flags: FlagSettings = FlagSettings()
    host: HostSettings = HostSettings()
