"""What a user may say about what else is read on a node: the block `evidence`."""

from __future__ import annotations

from typing import Annotated

from otel_ofu.files.settings import Duration, ExistingFile, QuantityRange, Settings


class FlagSettings(Settings, frozen=True, kw_only=True):
    """`interval`: how often processes are scanned. `files`: flags beside the built-in ones.

    `trust_pids`: the driver's process ids are those of this /proc, though that cannot be checked.
    """

    enabled: bool = True
    interval: Annotated[Duration, QuantityRange(Duration(1), Duration(86400))] = Duration(30)
    files: list[Annotated[str, ExistingFile()]] = []
    trust_pids: bool = False


class HostSettings(Settings, frozen=True, kw_only=True):
    """Load of this node."""

    enabled: bool = True


class EvidenceSettings(Settings, frozen=True, kw_only=True):
    """Flags of processes, load of the node."""

    flags: FlagSettings = FlagSettings()
    host: HostSettings = HostSettings()
