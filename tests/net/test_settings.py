from __future__ import annotations

import socket

import pytest

from otel_ofu.net.settings import is_this_machine


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]"]
)
def test_the_loopback_is_this_machine(host: str) -> None:
    assert is_this_machine(host)


def test_the_machine_s_own_name_is_this_machine() -> None:
    assert is_this_machine(socket.gethostname())


@pytest.mark.parametrize("host", ["node7", "192.0.2.7", "2001:db8::7", "localhost.example"])
def test_other_names_and_addresses_are_not(host: str) -> None:
    assert not is_this_machine(host)
