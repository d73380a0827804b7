"""What a user may say about flags: the block `evidence.flags`."""

from __future__ import annotations

from typing import Annotated

from otel_ofu.files.settings import Between, Duration, Existing, Settings


class FlagSettings(Settings, frozen=True, kw_only=True):
    """`interval`: how often processes are scanned. `files`: flags beside the built-in ones.

    `trust_pids`: the driver's process ids are those of this /proc, though that cannot be checked.
    """

    enabled: bool = True
    interval: Annotated[Duration, Between(Duration(1), Duration(86400))] = Duration(30)
    files: list[Annotated[str, Existing()]] = []
    trust_pids: bool = False
