"""What is wrong with a model's config.json."""

from __future__ import annotations

from otel_ofu.errors import OtelOfuError


class ModelConfigError(OtelOfuError):
    """A model's config lacks something or is of an unknown kind; says what is allowed."""
