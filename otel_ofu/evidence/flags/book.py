"""The flags that are looked for, and the names that may be read for them.

Enters: flags and facts. Leaves: `FlagBook`, read-only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from otel_ofu.evidence.flags.rows import Fact, Flag, Look, Where

CONF_FILE = "NCCL_CONF_FILE"
KEY = "flag:"
NOT_FLAGGED = "S0"


@dataclass(frozen=True)
class FlagBook:
    """`flags` are all of the file, those that are not to be flagged (S0) among them."""

    flags: tuple[Flag, ...]
    facts: tuple[Fact, ...] = ()

    @cached_property
    def watched(self) -> tuple[Flag, ...]:
        """The flags that are looked for, the worst first."""
        worst = sorted(self.flags, key=lambda flag: flag.severity, reverse=True)
        return tuple(flag for flag in worst if flag.severity != NOT_FLAGGED)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The only names that are ever read out of an environment."""
        return frozenset(self._names("env") | self._names("nccl_conf") | {CONF_FILE})

    @cached_property
    def conf_names(self) -> frozenset[str]:
        """The only names that are ever read out of NCCL's configuration files."""
        return self._names("nccl_conf")

    @cached_property
    def deepspeed_keys(self) -> frozenset[str]:
        """The only keys that are ever read out of DeepSpeed's configuration."""
        return self._names("deepspeed")

    @cached_property
    def libraries(self) -> tuple[str, ...]:
        """Parts of the names of libraries."""
        return tuple(sorted(self._names("maps")))

    def flag(self, flag_id: str) -> Flag | None:
        """The flag of an id, for what a diagnosis says of it."""
        return self._by_id.get(flag_id)

    @cached_property
    def _by_id(self) -> dict[str, Flag]:
        return {flag.id: flag for flag in self.flags}

    def _names(self, where: Where) -> frozenset[str]:
        return frozenset(n for look in self._looks() if where in look.where for n in look.names)

    def _looks(self) -> Iterator[Look]:
        rows: Sequence[Flag | Fact] = (*self.watched, *self.facts)
        for row in rows:
            yield from row.look


def key_of(flag_id: str) -> str:
    """The registry key of a flag: `flag:TORCH_DISTRIBUTED_DEBUG`."""
    return KEY + flag_id
