"""What becomes of each line of a page, for people.

Enters: the text of a page. Leaves: a `LineReport` for each line with a sample, the names that no
profile knows, and the readings that the page gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from otel_ofu.catalog.vendors import INFO, OPERAND, ExporterProfile, MetricCandidate
from otel_ofu.model import Gap, Owner, Reading
from otel_ofu.sources.scrape.identity import DeviceSlot, Labels, owners_of
from otel_ofu.sources.scrape.page import PageReader, PageReadings, ScrapeContext
from otel_ofu.sources.scrape.parse import LineProblem, MetricsPage, Sample, parse
from otel_ofu.sources.scrape.read import PageMapping
from otel_ofu.sources.scrape.stamps import AHEAD_S, StampLimits


@dataclass(frozen=True, slots=True)
class LineReport:
    """One line with a name that a profile knows; `text` is its value as it stands there.

    `keys` are the registry keys that it gives, with value or gap; `note` says what else it is for,
    or why it is not read. `device` is empty where its labels name none that is read.
    """

    line: int
    name: str
    text: str
    device: str = ""
    owners: Sequence[Owner] = ()
    keys: Mapping[str, float | Gap] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A metric that no profile knows: its first line, and how many there are."""

    name: str
    line: int
    count: int


@dataclass(frozen=True, slots=True)
class PageExplanation:
    """`dropped` are the lines that could not be read, `malformed` how many there are."""

    lines: Sequence[LineReport]
    unknown: Sequence[UnknownName]
    dropped: Sequence[LineProblem]
    malformed: int
    cut_off: LineProblem | None
    readings: Sequence[Reading]
    exporters: Mapping[str, str]


def explain(text: str, context: ScrapeContext, host: str, now_s: float | None) -> PageExplanation:
    """What a first read of the page gives. Without `now_s` it is read at its own newest stamp."""
    vendors, page = context.vendors, parse(text)
    now_s = _newest_s(page, context.clock.now_s()) if now_s is None else now_s
    trace = _Trace()
    limits = StampLimits(now_s)
    mapping = PageMapping(vendors, context.registry, host, limits, trace)
    rows = mapping.devices(page)
    used = {each.line: each.used_line for row in rows for each in row.conflicts}
    read: PageReadings = PageReader(context, host).read(text, now_s)
    reports = [*trace.reports(mapping, context, used), *_without_code(page, context, trace)]
    return PageExplanation(
        lines=sorted(reports, key=lambda report: report.line),
        unknown=_unknown(page, context),
        dropped=page.problems,
        malformed=page.malformed,
        cut_off=page.cut_off,
        readings=read.readings,
        exporters={row.device.uuid: vendors.profiles[row.profile_id].title for row in read.rows},
    )


def _newest_s(page: MetricsPage, clock_s: float) -> float:
    stamps = (s.timestamp_s for s in page.samples if s.timestamp_s is not None)
    return max((stamp for stamp in stamps if 0 < stamp <= clock_s + AHEAD_S), default=clock_s)


def _without_code(page: MetricsPage, context: ScrapeContext, trace: _Trace) -> Iterator[LineReport]:
    """The lines whose key is to come from a label that has none."""
    for sample in page.samples:
        if sample.name in context.vendors.candidates and not trace.has(sample.line):
            yield LineReport(
                sample.line, sample.name, sample.text, note="not read: its labels have no code"
            )


def _unknown(page: MetricsPage, context: ScrapeContext) -> list[UnknownName]:
    found: dict[str, UnknownName] = {}
    for sample in page.samples:
        if sample.name not in context.vendors.candidates:
            known = found.get(sample.name, UnknownName(sample.name, sample.line, 0))
            found[sample.name] = UnknownName(sample.name, known.line, known.count + 1)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Mapped:
    sample: Sample
    profile_id: str
    slot: DeviceSlot
    key: str
    value: float | Gap


class _Trace:
    def __init__(self) -> None:
        self._mapped: dict[int, list[_Mapped]] = {}
        self._refused: dict[int, LineReport] = {}

    def mapped(
        self, sample: Sample, profile_id: str, slot: DeviceSlot, key: str, value: float | Gap
    ) -> None:
        entry = _Mapped(sample, profile_id, slot, key, value)
        self._mapped.setdefault(sample.line, []).append(entry)

    def refused(self, sample: Sample, candidates: Sequence[MetricCandidate]) -> None:
        note = _why_not(sample.labels, candidates)
        self._refused[sample.line] = LineReport(sample.line, sample.name, sample.text, note=note)

    def reports(
        self, mapping: PageMapping, context: ScrapeContext, used: Mapping[int, int]
    ) -> Iterator[LineReport]:
        """`used`: line -> the line that is used in its place."""
        yield from self._refused.values()
        first: dict[tuple[str, str, str], int] = {}
        moved = mapping.moved()
        for line, entries in self._mapped.items():
            sample, profile = entries[0].sample, context.vendors.profiles[entries[0].profile_id]
            uuid = mapping.device(entries[0].slot).uuid
            before = first.setdefault((sample.name, uuid, _parts(sample.labels)), line)
            yield LineReport(
                line=line,
                name=sample.name,
                text=sample.text,
                device=uuid,
                owners=owners_of(profile, [sample.labels], moved),
                keys={e.key: e.value for e in entries if not e.key.startswith(OPERAND)},
                note=_note(
                    profile, entries[0].key, before if before != line else None, used.get(line)
                ),
            )

    def has(self, line: int) -> bool:
        return line in self._mapped or line in self._refused


def _note(profile: ExporterProfile, key: str, before: int | None, used: int | None) -> str:
    notes = [_use(profile, key)] if key.startswith(OPERAND) else []
    if used is not None:
        notes += [f"differs from line {used}, not used"]
    elif before:
        notes += [f"repeats line {before}, for another owner"]
    return "; ".join(notes)


def _use(profile: ExporterProfile, key: str) -> str:
    """What is made of a number, or of labels, that is no value by itself."""
    if key == INFO:
        return "describes the device"
    for counter, operand in profile.last_codes.items():
        if operand == key:
            return f"code of the last event; a change counts as {counter}:<code>"
    made = [ratio.key for ratio in profile.ratios if key in (ratio.over, ratio.under)]
    return f"{', '.join(made)} is computed from it"


_PART_LABELS = ("clock_index", "clock_type", "nvlink", "link", "xid", "pipe", "clock", "type")


def _parts(labels: Labels) -> str:
    """The labels that tell series of one name and one device apart."""
    return "/".join(labels.get(name, "") for name in _PART_LABELS)


def _why_not(labels: Labels, candidates: Sequence[MetricCandidate]) -> str:
    """The reason of the candidate that comes nearest."""
    for candidate in candidates:
        names = candidate.profile.labels
        if any(labels.get(name) for name in (*names.uuid, *names.index)):
            where = ", ".join(
                f"{name} {labels.get(name, '')!r} (read: {', '.join(filter(None, allowed))})"
                for name, allowed in candidate.row.where.items()
            )
            return f"not read: {where}"
    wanted = {
        name for c in candidates for name in (*c.profile.labels.uuid, *c.profile.labels.index)
    }
    return f"its labels name no device: none of {', '.join(sorted(wanted))}"
