"""Which machine the GPUs of a page are on."""

from __future__ import annotations

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.vendors import load_vendors
from otel_ofu.model.clock import VirtualClock
from otel_ofu.sources.scrape.identity import hosts_of
from otel_ofu.sources.scrape.page import PageReader, ScrapeContext
from otel_ofu.sources.scrape.settings import endpoint_at


def gpu(number: int, host: str = "") -> str:
    named = f',Hostname="{host}"' if host else ""
    return f'DCGM_FI_DEV_GPU_TEMP{{gpu="{number}",UUID="GPU-{number}"{named}}} 40\n'


def hosts(url: str, text: str) -> list[str]:
    endpoint = endpoint_at(url)
    context = ScrapeContext(load_vendors(), load_registry(), VirtualClock(), 10.0)
    read = PageReader(context, endpoint.host).read(text, 0.0)
    devices = [row.device for row in read.rows]
    return list(hosts_of(devices, endpoint.host, is_local=endpoint.is_local).values())


@pytest.mark.parametrize(
    ("url", "text", "expected"),
    [
        ("localhost:9400", gpu(0), [""]),
        ("localhost:9400", gpu(0, "dcgm-exporter-x7k2p"), [""]),
        ("localhost:9400", gpu(0, "localhost"), [""]),
        ("localhost:9090/federate", gpu(0, "n7"), ["n7"]),
        ("localhost:9091/metrics", gpu(0, "n7") + gpu(1, "n8"), ["n7", "n8"]),
        ("node9:9400", gpu(0), ["node9"]),
        ("node9:9400", gpu(0, "gpu-9.cluster"), ["gpu-9.cluster"]),
        ("node9:9400", gpu(0, "localhost"), ["node9"]),
    ],
)
def test_a_gpu_is_on_the_machine_of_its_exporter(url: str, text: str, expected: list[str]) -> None:
    assert hosts(url, text) == expected
