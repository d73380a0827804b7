"""Claim: our parser reads a 64-GPU dcgm-exporter page many times faster than prometheus_client's.

`run()` measures both on the same generated page in one process and returns the times and the ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.vendors import load_vendors
from otel_ofu.sources.scrape.parse import parse
from otel_ofu.sources.scrape.read import PageMapping
from otel_ofu.sources.scrape.stamps import StampLimits

GPUS = 64
ROUNDS = 5
OTHER_NAMES = 12
"""Names on a usual page that nothing here reads."""


def page(gpus: int = GPUS) -> str:
    """A page of `gpus` GPUs with 40 metrics in dcgm-exporter's format; made up values."""
    names = [n for n in load_registry().by_dcgm_name if n.endswith(("ACTIVE", "CLOCK", "USED"))]
    names += [f"DCGM_FI_DEV_OTHER_{i}" for i in range(OTHER_NAMES)]
    names += [n for n in load_registry().by_dcgm_name if n not in names][: 40 - len(names)]
    lines = []
    for number, name in enumerate(names):
        lines += [f"# HELP {name} Made up.", f"# TYPE {name} gauge"]
        lines += [f"{name}{{{_labels(gpu)}}} 0.{number:02}{gpu:02}00" for gpu in range(gpus)]
    return "\n".join(lines) + "\n"


def _labels(gpu: int) -> str:
    return (
        f'gpu="{gpu}",UUID="GPU-{gpu:08x}-0000-4000-8000-000000000000",'
        f'pci_bus_id="00000000:{gpu:02X}:00.0",device="nvidia{gpu}",'
        'modelName="NVIDIA H100 80GB HBM3",hostname="node-0001",'
        'DCGM_FI_DRIVER_VERSION="570.133.20",container="main",namespace="ml",'
        f'pod="train-{gpu // 8}",pod_uid="5f0c1c1e-0000-4000-8000-{gpu:012d}"'
    )


def run() -> dict[str, float | str]:
    """Milliseconds for one page (best of some rounds), and how many times faster ours is."""
    text, vendors, registry = page(), load_vendors(), load_registry()
    limits = StampLimits(now_s=0.0)
    theirs_s = _best(lambda: [list(f.samples) for f in text_string_to_metric_families(text)])
    all_s = _best(lambda: parse(text))
    ours_s = _best(lambda: parse(text, vendors.candidates))
    mapped_s = _best(
        lambda: PageMapping(vendors, registry, "", limits).devices(parse(text, vendors.candidates))
    )
    return {
        "name": f"parse a {GPUS}-GPU dcgm-exporter page ({len(text) // 1000} kB)",
        "prometheus_client_ms": round(theirs_s * 1e3, 2),
        "all_names_ms": round(all_s * 1e3, 2),
        "wanted_names_ms": round(ours_s * 1e3, 2),
        "to_devices_ms": round(mapped_s * 1e3, 2),
        "ratio": round(theirs_s / ours_s, 1),
    }


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        started_s = time.process_time()
        work()
        times.append(time.process_time() - started_s)
    return min(times)


if __name__ == "__main__":
    for key, value in run().items():
        print(f"{key}: {value}")
