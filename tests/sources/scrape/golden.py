"""What a page maps to, as JSON that a person can review.

A new profile of vendors.yaml: put a page of the exporter into pages/NAME.prom and run
`python -m tests.sources.scrape.golden`, which writes the expected files anew; read the difference.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path

from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.vendors import load_vendors
from otel_ofu.model import Device
from otel_ofu.sources.scrape.parse import parse
from otel_ofu.sources.scrape.read import DeviceRow, PageMapping

PAGES = Path(__file__).parent / "pages"
HOST = "node.test"
_DEFAULTS = {field.name: field.default for field in fields(Device)}


def devices(text: str) -> list[DeviceRow]:
    vendors = load_vendors()
    return PageMapping(vendors, load_registry(), HOST).devices(parse(text, vendors.candidates))


def render(text: str) -> str:
    """One JSON object a device; what stands at its default is left out."""
    rows = [
        {
            "device": {k: v for k, v in asdict(row.device).items() if v != _DEFAULTS[k]},
            "profile": row.profile_id,
            "values": {k: float(f"{v:.12g}") for k, v in sorted(row.values.items())},
            "gaps": {k: f"{g.reason}: {g.detail}" for k, g in sorted(row.gaps.items())},
            "owner": dict(sorted(row.owner.items())),
            "quality": row.quality,
        }
        for row in devices(text)
    ]
    return json.dumps(rows, indent=1) + "\n"


if __name__ == "__main__":
    for page in sorted(PAGES.glob("*.prom")):
        page.with_suffix(".json").write_text(render(page.read_text("utf-8")), "utf-8")
