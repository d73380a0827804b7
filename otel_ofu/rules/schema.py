"""The JSON Schema of rule files, for editors."""

from __future__ import annotations

from typing import Any

import msgspec

from otel_ofu.rules.files.shape import FileShape

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of one rule file."""
    made = msgspec.json.schema(FileShape)
    return {"$schema": DIALECT, "title": "Rules of otel-ofu", **made}
