"""The implementation of protobuf."""

from __future__ import annotations

import pytest

from otel_ofu.net.fast_protobuf import require_fast_protobuf


def test_a_slow_protobuf_is_refused_with_the_remedy() -> None:
    require_fast_protobuf("upb")
    with pytest.raises(ValueError, match=r"'python' implementation.*allowed: 'upb'"):
        require_fast_protobuf("python")
