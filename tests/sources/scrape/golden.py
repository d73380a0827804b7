"""What a page maps to, as JSON that a person can review.

Pages stand in tests/golden/pages: names and labels are those of real exporters, values are made.
`NOW` in a page is the time of the scrape in milliseconds; `NOW-2h` and so on count from there.

A new profile of vendors.yaml: put a page of the exporter into NAME.prom and run
`python -m tests.sources.scrape.golden`, which writes the expected files anew; read the difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.vendors import load_vendors
from otel_ofu.derive.deriver import Deriver
from otel_ofu.derive.settings import DeriverSettings
from otel_ofu.model import Device, Observation, Reading, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.sources.scrape.page import PageReader, PageReadings, ScrapeContext
from otel_ofu.sources.scrape.read import DeviceRow

PAGES = Path(__file__).parents[2] / "golden" / "pages"
HOST = "node.test"
NOW_S = 1_800_000_000.0
INTERVAL_S = 10.0
_DEFAULTS = {field.name: field.default for field in fields(Device)}
_STAMP = re.compile(r"NOW(?:([+-]\d+)([smh]))?")
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000}


def stamped(text: str) -> str:
    """The page with `NOW-2h` and so on as numbers."""
    return _STAMP.sub(_milliseconds, text)


def _milliseconds(match: re.Match[str]) -> str:
    offset = int(match[1]) * _UNITS_MS[match[2]] if match[1] else 0
    return str(int(NOW_S * 1000) + offset)


def read(text: str) -> PageReadings:
    """The first read of a page."""
    context = ScrapeContext(load_vendors(), load_registry(), VirtualClock(NOW_S), INTERVAL_S)
    return PageReader(context, HOST).read(stamped(text), NOW_S)


def devices(text: str) -> list[DeviceRow]:
    return list(read(text).rows)


def observations(readings: Sequence[Reading]) -> list[Observation]:
    """What is derived of the readings of one page, MIG instances with their GPU."""
    deriver = Deriver(DeriverSettings())
    by_uuid = {reading.device.uuid: reading for reading in readings}
    return [deriver.derive(each, by_uuid.get(each.device.parent)) for each in readings]


def render(text: str) -> str:
    """One JSON object a device, then the lines that were not read; defaults are left out."""
    page = read(text)
    rows: list[object] = [
        _device(row, reading, observation)
        for row, reading, observation in zip(
            page.rows, page.readings, observations(page.readings), strict=True
        )
    ]
    dropped = [str(problem) for problem in page.page.problems]
    dropped += [f"{page.page.cut_off} (cut off)"] if page.page.cut_off else []
    rows += [{"dropped": dropped}] if dropped else []
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def _device(row: DeviceRow, reading: Reading, observation: Observation) -> dict[str, object]:
    sku = observation.entity.attributes.get("ofu.gpu.sku")
    gap = observation.gaps.get("ofu")
    return {
        "entity": {k: v for k, v in asdict(row.device).items() if v != _DEFAULTS[k]},
        "profile": row.profile_id,
        "sku": sku,
        "ofu": f"{gap.reason}: {gap.detail}" if gap else float(f"{observation.values['ofu']:.6g}"),
        "values": {key: _with_unit(key, value) for key, value in sorted(reading.values.items())},
        "gaps": {k: f"{g.reason}: {g.detail}" for k, g in sorted(reading.gaps.items())},
        **_owners(row),
        "quality": row.quality,
    } | _times(reading)


def _owners(row: DeviceRow) -> dict[str, object]:
    found = [dict(sorted(owner.attributes.items())) for owner in row.owners]
    return {"owners": found} if len(found) > 1 else {"owner": found[0] if found else {}}


def _with_unit(key: str, value: float) -> str:
    return f"{value:.12g} {load_registry().metric(key).unit}"


def _times(reading: Reading) -> dict[str, object]:
    """The times that are not those of the read, in seconds from it."""
    usual = Window(NOW_S - INTERVAL_S, NOW_S)
    windows = {"": reading.window, **reading.windows}
    shown = {
        key: f"{window.start_s - NOW_S:g} to {window.end_s - NOW_S:g} s"
        for key, window in windows.items()
        if window != usual
    }
    return {"windows": shown} if shown else {}


if __name__ == "__main__":
    for page in sorted(PAGES.glob("*.prom")):
        page.with_suffix(".json").write_text(render(page.read_text("utf-8")), "utf-8")
