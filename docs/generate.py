"""Writes the pages that are made from code and catalogues; a test holds them equal.

`python docs/generate.py` writes; `pages()` gives path -> text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from otel_ofu.catalog.registry import AttributeDefinition, Metric, Registry, load_registry
from otel_ofu.catalog.vendors import load_vendors
from otel_ofu.diagnose import load_causes
from otel_ofu.evidence.flags import load_flags
from otel_ofu.evidence.flags.catalogue import Flag
from otel_ofu.files.installed import shipped
from otel_ofu.rules.functions import all_functions

ROOT = Path(__file__).resolve().parent.parent
KINDS = {
    "gauge": "gauge",
    "counter": "monotonic sum, cumulative",
    "updown": "sum, cumulative",
    "histogram": "histogram",
}

SEVERITIES = {
    "S4": "often twice the step time or worse",
    "S3": "20 to 100 %",
    "S2": "5 to 20 %",
    "S1": "less, or good to know",
    "S0": "not to be flagged, and why",
}


def pages() -> dict[Path, str]:
    registry = load_registry()
    return {
        ROOT / "docs" / "metrics.md": _page(_metrics(registry)),
        ROOT / "docs" / "config.md": _page(_config()),
        ROOT / "docs" / "exporters.md": _page(_exporters()),
        ROOT / "docs" / "flags.md": _page(_flags()),
        ROOT / "docs" / "causes.md": _with_part(
            ROOT / "docs" / "causes.md", "causes", _causes(registry)
        ),
        ROOT / "docs" / "rules.md": _with_part(
            ROOT / "docs" / "rules.md", "functions", _functions()
        ),
    }


def _page(lines: Iterator[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


def _metrics(registry: Registry) -> Iterator[str]:
    yield "# Metrics and attributes"
    yield ""
    yield "Generated from `otel_ofu/catalog/registry.yaml` by `make docs`; do not edit."
    yield ""
    yield "*Key* is the short name that rules and recordings use. `DCGM` is the field id, `GPM`"
    yield "the NVML GPM metric id. All metrics are in development: a major version may rename them."
    for entity, title in (
        ("gpu", "GPU"),
        ("job", "Job"),
        ("node", "Node"),
        ("agent", "The agent itself"),
    ):
        yield ""
        yield f"## {title}"
        yield from _metric_groups(registry, entity)
    yield ""
    yield "## Attributes"
    yield ""
    yield "| attribute | type | on | values | meaning |"
    yield "|---|---|---|---|---|"
    for name, attribute in sorted(registry.attributes.items()):
        yield _attribute_row(name, attribute)


def _metric_groups(registry: Registry, entity: str) -> Iterator[str]:
    groups: dict[str, list[tuple[str, Metric]]] = defaultdict(list)
    for key, metric in registry.metrics.items():
        if metric.entity == entity:
            groups[metric.name].append((key, metric))
    for name, members in groups.items():
        first = members[0][1]
        yield ""
        yield f"### `{name}`"
        yield ""
        yield f"{first.brief} ({KINDS[first.kind]}, unit `{first.unit}`)"
        yield ""
        yield "| key | point attributes | DCGM | GPM |"
        yield "|---|---|---|---|"
        for key, metric in members:
            yield _metric_row(key, metric)


def _metric_row(key: str, metric: Metric) -> str:
    fixed = [f"`{name}={value}`" for name, value in metric.attributes.items()]
    free = [f"`{name}`" for name in [*metric.labels, *metric.points_with]]
    labels = "".join(f":{name.rpartition('.')[2]}" for name in metric.labels)
    dcgm = str(metric.dcgm.id) if metric.dcgm else ""
    gpm = str(metric.gpm.id) if metric.gpm else ""
    return f"| `{key}{labels}` | {', '.join(fixed + free)} | {dcgm} | {gpm} |"


def _attribute_row(name: str, attribute: AttributeDefinition) -> str:
    values = ", ".join(f"`{value}`" for value in attribute.values)
    return f"| `{name}` | {attribute.type} | {attribute.where} | {values} | {attribute.brief} |"


def _config() -> Iterator[str]:
    yield "# Configuration"
    yield ""
    yield "Generated from `config/otel-ofu.yaml` by `make docs`; do not edit. Every key is here,"
    yield "at its default. `otel-ofu run --check -c FILE` lists each mistake with line and column."
    yield ""
    yield "```yaml"
    yield (shipped("config") / "otel-ofu.yaml").read_text("utf-8").rstrip()
    yield "```"


def _exporters() -> Iterator[str]:
    yield "# Exporters that can be scraped"
    yield ""
    yield "Generated from `otel_ofu/catalog/vendors.yaml` by `make docs`; do not edit."
    yield ""
    yield "| exporter | what OFU means there |"
    yield "|---|---|"
    for profile in load_vendors().profiles.values():
        yield f"| {profile.title} | {profile.ofu} |"
    yield ""
    yield from _PAGES


_PAGES = """\
**Set one up.** `otel-ofu doctor --page FILE|URL` (or `--page -`, for standard input) shows line
by line what is read, as which device, owner, metric and unit; what is not read, with its line and
the reason; and what to set where a GPU has no OFU. It ends with 0 if each GPU on the page has an
OFU and every line could be read, with 1 if not, with 2 for a mistake in the command.

**Lines** are read as the Prometheus text format has them. A line that is not in it is left out
and reported (`ofu.source.troubles`, reason `malformed`), and the rest is read. A last line
without a line feed may be cut off, so it is not read (`cut_off`). The value of an exemplar is not
the sample's. Where two lines give one value of a device and differ, the first is used (of two
metrics the one that exporters have had for longer) and the other is reported (`conflict`).
An endpoint has at most 4096 devices, those that left its page within 10 minutes included; what is
more is not read, or forgotten at once, and reported (`too_many_devices`).

**Timestamps.** Where samples have them (Ascend npu-exporter, `/federate`, a pushgateway) each is
used once and with its own time. One that is older than 2 minutes, or than three refresh periods
of the page, is a gap `stale`; one more than 10 s ahead of this machine's clock, or without a
possible time, is `out_of_range`. Activity and clock that are more than one refresh period apart
are not multiplied: the older one is `stale`.

**XIDs.** dcgm-exporter shows the last XID until the next one. The one that is there when a GPU is
first seen is not counted, a change is; the same XID twice in a row counts as one.
""".splitlines()


def _flags() -> Iterator[str]:
    yield "# Flags that slow jobs"
    yield ""
    yield "Generated from `rules/flags.yaml` by `make docs`; do not edit. How to read it,"
    yield "and how to add to it: [evidence.md](evidence.md)."
    flags = sorted(load_flags().flags, key=lambda flag: flag.severity, reverse=True)
    for severity, title in SEVERITIES.items():
        yield ""
        yield f"## {severity}: {title}"
        for flag in flags:
            if flag.severity == severity:
                yield from _flag(flag)


def _flag(flag: Flag) -> Iterator[str]:
    yield ""
    seen = (look.names or look.programs or [" ".join(look.words)] for look in flag.look)
    marks = ", ".join(f"`{mark}`" for mark in dict.fromkeys(m for marks in seen for m in marks))
    yield f"**{flag.id}** ({marks}). {flag.mechanism}"
    for title, text in (
        ("When", flag.condition),
        ("Measured", flag.measured),
        ("Fine for", flag.legitimate),
        ("Counters", flag.counters),
    ):
        if text:
            yield f"*{title}*: {text}"
    yield ", ".join(f"[{n}]({source})" for n, source in enumerate(flag.sources, 1))


def _causes(registry: Registry) -> Iterator[str]:
    yield "| id | what | severity | what distinguishes it | similar causes |"
    yield "|---|---|---|---|---|"
    for cause in load_causes(shipped("rules") / "causes.yaml", registry).causes:
        severity = f"{cause.severity}, meant to be" if cause.legitimate else cause.severity
        cells = (f"`{cause.id}`", cause.title, severity, cause.remark, cause.confounders or "-")
        yield f"| {' | '.join(cells)} |"


def _functions() -> Iterator[str]:
    yield "| function | gives |"
    yield "|---|---|"
    for usage, gives in all_functions():
        yield f"| `{usage}` | {gives} |"


def _with_part(page: Path, name: str, lines: Iterator[str]) -> str:
    """The page as it is, with the part between its two marks made anew."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    head, found, rest = page.read_text("utf-8").partition(begin)
    _, last, tail = rest.partition(end)
    if not found or not last:
        raise ValueError(f"{page}: no {begin.strip()} and {end} in it")
    return "".join((head, begin, *(f"{line}\n" for line in lines), end, tail))


def main() -> None:
    for path, text in pages().items():
        path.write_text(text, "utf-8")
        print(path.relative_to(ROOT))  # noqa: T201 - a script tells what it wrote


if __name__ == "__main__":
    main()
