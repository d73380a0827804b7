"""Addresses to listen on, and what is none."""

from __future__ import annotations

import pytest

from otel_ofu.net.settings import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:4318", Address("127.0.0.1", 4318)),
        ("[::1]:0", Address("::1", 0)),
        ("gateway:65535", Address("gateway", 65535)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", ":4318", "host", "host:", "host:x", "host:65536", "::1:4318"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: host:port"):
        parse_address(text)
