"""OTLP requests as JSON, one line each, as the Collector's file exporter writes them.

Source: OpenTelemetry protocol specification 1.9, JSON Protobuf Encoding: camelCase names, enums as
numbers, 64-bit integers as strings, trace and span ids in hexadecimal.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.json_format import MessageToDict

from otel_ofu.export.request import unpack
from otel_ofu.outbox.batch import Body

_IDS = ("traceId", "spanId", "parentSpanId")


def json_line(body: Body) -> bytes:
    """The request with a newline at its end. ValueError for a body that is no OTLP request."""
    tree = MessageToDict(unpack(body), use_integers_for_enums=True)
    _ids_in_hex(tree)
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _ids_in_hex(tree: Any) -> None:  # noqa: ANN401 - JSON
    """Protobuf's own JSON has base64 there; ids occur on records and exemplars only."""
    if isinstance(tree, list):
        for item in tree:
            _ids_in_hex(item)
    elif isinstance(tree, dict):
        for name, value in tree.items():
            if name in _IDS and isinstance(value, str):
                tree[name] = base64.b64decode(value).hex()
            else:
                _ids_in_hex(value)
