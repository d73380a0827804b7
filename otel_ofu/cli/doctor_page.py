"""`otel-ofu doctor --page`: what a page of an exporter gives, line by line.

Enters: a `PageReport`. Leaves: lines of text, free of whatever a page may hold to upset a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from otel_ofu.app.doctor import ofu_text, reference_text
from otel_ofu.app.page_report import PageGpu, PageReport
from otel_ofu.catalog.registry import Metric, load_registry
from otel_ofu.derive.efficiency import FIXED_CLOCK
from otel_ofu.model import Gap, GapReason, Owner
from otel_ofu.report.text import clean, printable
from otel_ofu.sources.scrape.explain import LineReport, PageExplanation, UnknownName
from otel_ofu.sources.scrape.stamps import STAMPED

_CLOCKS = "check the clocks of the exporter's machine and of this one"
_TODO = {
    GapReason.STALE: f"{_CLOCKS}, and that the exporter refreshes its samples",
    GapReason.OUT_OF_RANGE: "the exporter gives an impossible value, update or repair it",
    GapReason.NOT_READY: "wait until the exporter has a value, and read the page again",
    GapReason.NOT_PERMITTED: "give the exporter the right to read it",
}
"""What to do where the detail of a gap does not say it."""


def lines(report: PageReport) -> Iterator[str]:
    """The report as text."""
    page = report.explanation
    yield "\nLines that are read"
    yield from (_line(each) for each in page.lines if each.device) if page.lines else ["  none"]
    yield from _not_read(page)
    yield "\nGPUs"
    for gpu in report.gpus:
        yield from _gpu(gpu)
    if not report.gpus:
        yield "  none: no profile knows a metric of this page; docs/exporters.md lists exporters"
    remedies = list(dict.fromkeys(_remedies(report)))
    if remedies:
        yield "\nFor an OFU"
        yield from (f"  -> {printable(remedy)}" for remedy in remedies)
    yield f"\n{_verdict(report)}"


def _line(report: LineReport) -> str:
    shown = [_value(key, value) for key, value in _worth_showing(report.keys).items()]
    hidden = len(report.keys) - len(shown)
    shown += [f"and {hidden} that are 0"] if hidden else []
    shown += [report.note] if report.note else []
    found = "; ".join(clean(text) for text in shown)
    what = f"{clean(report.name)} {clean(report.text)}"
    return f"  line {report.line}: {what} -> {clean(report.device)}{_owner(report.owners)}: {found}"


def _worth_showing(keys: Mapping[str, float | Gap]) -> Mapping[str, float | Gap]:
    """Of the bits of a mask those that are set."""
    return keys if len(keys) == 1 else {key: value for key, value in keys.items() if value}


def _value(key: str, value: float | Gap) -> str:
    metric = load_registry().metric(key)
    if isinstance(value, Gap):
        return f"{key} has no value: {_gap(value)}"
    unit = "" if metric.unit == "1" else f" {metric.unit}"
    return f"{key} {value:.10g}{unit} ({_name(metric, key)})"


def _name(metric: Metric, key: str) -> str:
    attributes = ", ".join(
        f"{name}={value}" for name, value in load_registry().point_attributes(key).items()
    )
    return f"{metric.name}{{{attributes}}}" if attributes else metric.name


def _owner(owners: Sequence[Owner]) -> str:
    return " and".join(f" of {_attributes(owner)}" for owner in owners)


def _attributes(owner: Owner) -> str:
    return ", ".join(f"{name}={clean(value)}" for name, value in owner.attributes.items())


def _gap(gap: Gap) -> str:
    reason = gap.reason.value.replace("_", " ")
    return f"{reason}: {gap.detail}" if gap.detail else reason


def _not_read(page: PageExplanation) -> Iterator[str]:
    yield "\nLines that are not read"
    for problem in page.dropped:
        yield f"  {clean(str(problem))}: not in the Prometheus text format, or no number"
    more = page.malformed - len(page.dropped)
    if more > 0:
        yield f"  and {more} more such lines"
    if page.cut_off is not None:
        yield f"  {clean(str(page.cut_off))}: the last line has no line feed, it may be cut off"
    for report in page.lines:
        if not report.device:
            yield f"  line {report.line}: {clean(report.name)}: {clean(report.note)}"
    yield from (_unknown(each) for each in page.unknown)
    if not (page.dropped or page.cut_off or page.unknown or any(not e.device for e in page.lines)):
        yield "  none"


def _unknown(name: UnknownName) -> str:
    count = "" if name.count == 1 else f" and {name.count - 1} more"
    return f"  line {name.line}{count}: {clean(name.name)}: no profile knows it"


def _gpu(gpu: PageGpu) -> Iterator[str]:
    device = gpu.reading.device
    part = f", instance of {device.parent}" if device.parent else ""
    yield f"  {clean(device.model or 'unknown model')}  {clean(device.uuid + part)}"
    yield f"      read as {gpu.exporter}{_owner(gpu.reading.owners)}"
    yield f"      {clean(reference_text(gpu.observation))}"
    yield f"      {clean(ofu_text(gpu.observation))}"
    for key, gap in gpu.reading.gaps.items():
        yield f"      - {key}: {printable(_gap(gap))}"


def _remedies(report: PageReport) -> Iterator[str]:
    for gpu in report.gpus:
        gap = gpu.observation.gaps.get("ofu")
        model = clean(gpu.reading.device.model)
        if gap is not None:
            yield _advice(gpu, gap)
        elif _is_unknown(gpu):
            yield (
                f"{model} is in no table of models, so there is no peak: "
                "add it to receivers.gpu.skus_file (docs/skus.md)"
            )


def _advice(gpu: PageGpu, gap: Gap) -> str:
    """What to do about the gap in place of the OFU; its detail is often that already."""
    read = gpu.reading
    if "reference_clock" not in gpu.observation.values and read.device.model and not read.gaps:
        return (
            f"{clean(read.device.model)!r} is in no table of models: set "
            "receivers.gpu.reference_clock, or add it to receivers.gpu.skus_file (docs/skus.md)"
        )
    is_stamp = gap.detail.startswith(STAMPED)
    todo = _CLOCKS if is_stamp else _TODO.get(gap.reason, "")
    key = next((f"{key}: " for key, own in read.gaps.items() if own == gap), "")
    return f"{todo}: {key}{gap.detail}" if todo else gap.detail or gap.reason.value


def _is_unknown(gpu: PageGpu) -> bool:
    """Whether the model has a name that the table lacks, and a clock that varies."""
    attributes = gpu.observation.entity.attributes
    is_listed = attributes.get("ofu.gpu.sku") != "unknown"
    return bool(gpu.reading.device.model) and not is_listed and gpu.reading.quality != FIXED_CLOCK


def _verdict(report: PageReport) -> str:
    gpus = len(report.gpus)
    with_ofu = sum("ofu" in gpu.observation.values for gpu in report.gpus)
    dropped = report.explanation.malformed + (report.explanation.cut_off is not None)
    text = f"GPUs and instances: {gpus}, with OFU: {with_ofu}"
    return f"{text}, lines that could not be read: {dropped}" if dropped else text
