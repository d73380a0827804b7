"""Addresses, tokens and certificates: what is no use is told in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.receive import Address, Tls, parse_address
from otel_ofu.receive.auth import BearerToken, tls_context


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


def test_tokens_that_are_none(tmp_path: Path) -> None:
    for name, content in (("empty", b" \n"), ("long", b"x" * 9000), ("binary", b"\xff\xfe")):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"token_file .*{name}"):
            BearerToken(str(path))
    with pytest.raises(ValueError, match="No such file"):
        BearerToken(str(tmp_path / "none"))


def test_certificates_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "a.pem"
    path.write_text("no certificate")
    for tls, message in (
        (Tls(cert_file="a"), "belong together"),
        (Tls(key_file="a"), "belong together"),
        (Tls(client_ca_file="a"), "without cert_file"),
        (Tls(cert_file=str(path), key_file=str(path)), "a.pem"),
        (Tls(cert_file="/nowhere", key_file=str(path)), "/nowhere"),
    ):
        with pytest.raises(ValueError, match=message):
            tls_context(tls)
    assert tls_context(Tls()) is None
