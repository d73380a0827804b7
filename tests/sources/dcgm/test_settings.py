from __future__ import annotations

import pytest

from otel_ofu.model.errors import SourceUnavailable
from otel_ofu.sources.dcgm.endpoint import EngineEndpoint
from otel_ofu.sources.dcgm.settings import DcgmSettings, endpoint


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("", EngineEndpoint("tcp", "127.0.0.1:5555")),
        ("gpu-7", EngineEndpoint("tcp", "gpu-7:5555")),
        ("gpu-7.example.org:6000", EngineEndpoint("tcp", "gpu-7.example.org:6000")),
        ("10.0.0.7:1", EngineEndpoint("tcp", "10.0.0.7:1")),
        ("[::1]", EngineEndpoint("tcp", "[::1]:5555")),
        ("[::1]:6000", EngineEndpoint("tcp", "[::1]:6000")),
        ("unix:///run/dcgm.sock", EngineEndpoint("unix", "/run/dcgm.sock")),
        ("/run/dcgm.sock", EngineEndpoint("unix", "/run/dcgm.sock")),
    ],
)
def test_addresses(address: str, expected: EngineEndpoint) -> None:
    assert endpoint(DcgmSettings(address=address)) == expected


def test_an_embedded_engine_has_no_address() -> None:
    assert endpoint(DcgmSettings(embedded=True)) == EngineEndpoint("embedded")
    with pytest.raises(SourceUnavailable, match="set one of the two"):
        endpoint(DcgmSettings(embedded=True, address="gpu-7"))


@pytest.mark.parametrize(
    "address",
    [
        "http://gpu-7:5555", "gpu-7:0", "gpu-7:65536", "gpu-7:x", "gpu-7:", ":5555", "gpu 7",
        "::1", "unix://run/dcgm.sock", "unix:///", "/", "gpu-7/5555", "gpu-7:٣",
    ],
)  # fmt: skip
def test_an_address_that_means_nothing_is_named_with_what_is_allowed(address: str) -> None:
    with pytest.raises(SourceUnavailable) as caught:
        endpoint(DcgmSettings(address=address))
    assert repr(address) in str(caught.value)
    assert "unix:///path" in str(caught.value)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("", ""),
        ("127.0.0.1:5555", ""),
        ("[::1]:5555", ""),
        ("unix:///run/dcgm.sock", ""),
        ("node7", "node7"),
        ("[2001:db8::7]:5555", "2001:db8::7"),
    ],
)
def test_an_engine_elsewhere_names_the_host_of_its_gpus(address: str, host: str) -> None:
    assert endpoint(DcgmSettings(address=address)).remote_host == host
