"""A Hugging Face config as numbers: each key checked, each mistake named.

Enters: the mapping of a config.json and what its model type takes for granted. Leaves: whole
numbers, flags and lists, or a `ModelConfigError` that names the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import repr as short
from typing import Any

from otel_ofu.mfu.flops.errors import ModelKeyError

MAX_COUNT = 1 << 32


class Keys:
    """Look-up in a config under the names of today; `aliases` maps those to older ones."""

    def __init__(
        self,
        config: Mapping[str, Any],
        aliases: Mapping[str, str],
        defaults: Mapping[str, Any],
    ) -> None:
        self._config = config
        self._aliases = aliases
        self._defaults = defaults

    def value(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """What the config says; a key that is absent or null has the default of its type."""
        found = self._config.get(self._aliases.get(name, name))
        if found is None:
            found = self._config.get(name)
        return self._defaults.get(name) if found is None else found

    def has(self, name: str) -> bool:
        return self.value(name) is not None

    def count(self, name: str, otherwise: int | None = None, *, least: int = 1) -> int:
        """A whole number, or `otherwise` when it is not given."""
        found = self.value(name)
        if found is None and otherwise is not None:
            return otherwise
        number = int(found) if isinstance(found, float) and found.is_integer() else found
        if (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not least <= number < MAX_COUNT
        ):
            said = "is missing" if found is None else f"is {short(found)}"
            raise ModelKeyError(
                f"{self._aliases.get(name, name)!r} {said}; "
                f"allowed: a whole number from {least} to {MAX_COUNT - 1}"
            )
        return number

    def optional(self, name: str) -> int | None:
        return self.count(name) if self.has(name) else None

    def flag(self, name: str) -> bool:
        found = self.value(name)
        if found is not None and not isinstance(found, bool):
            raise ModelKeyError(f"{name!r} is {short(found)}; allowed: true or false")
        return bool(found)

    def items(self, name: str) -> list[Any]:
        found = self.value(name)
        if found is None:
            return []
        if not isinstance(found, list):
            raise ModelKeyError(f"{name!r} is {short(found)}; allowed: a list")
        return found
