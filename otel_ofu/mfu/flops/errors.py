"""What is wrong with a model's config.json."""

from __future__ import annotations

from otel_ofu.model.errors import OtelOfuError


class ModelConfigError(OtelOfuError):
    """A model's config lacks something or is of an unknown kind; says what is allowed."""


class ModelKeyError(ModelConfigError):
    """A mistake inside a config; `in_file` puts the name of the file before it."""

    def __init__(self, mistake: str, file: str = "config.json") -> None:
        super().__init__(f"{file}: {mistake}")
        self._mistake = mistake

    def in_file(self, file: str) -> ModelKeyError:
        return ModelKeyError(self._mistake, file)
