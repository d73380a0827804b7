"""Tokens and certificates of servers: unusable ones are one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.net.secrets import BearerToken
from otel_ofu.net.tls import server_context


def test_unusable_tokens(tmp_path: Path) -> None:
    for name, content in (("empty", b" \n"), ("long", b"x" * 9000), ("binary", b"\xff\xfe")):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"token_file .*{name}"):
            BearerToken(str(path))
    with pytest.raises(ValueError, match="No such file"):
        BearerToken(str(tmp_path / "none"))


def test_unusable_certificates(tmp_path: Path) -> None:
    path = tmp_path / "a.pem"
    path.write_text("no certificate")
    for cert, key, client_ca, message in (
        ("", "a", "", "key_file without cert_file"),
        ("", "", "a", "client_ca_file without cert_file"),
        (str(path), str(path), "", "a.pem"),
        ("/nowhere", str(path), "", "/nowhere and .*a.pem: No such file"),
    ):
        with pytest.raises(ValueError, match=message):
            server_context(cert, key, client_ca)
    assert server_context("", "") is None
