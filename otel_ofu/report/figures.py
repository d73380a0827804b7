"""The numbers at the top of the page: a `Report` -> HTML."""

from __future__ import annotations

from collections.abc import Iterator

from otel_ofu.report.result import Agreement, Report, Summary
from otel_ofu.report.text import counted, hours, percent, plain


def figures(report: Report) -> str:
    """A description list; the small print says what a number is over."""
    rows = "\n".join(
        f"<div><dt>{name}</dt><dd>{value}<small>{small}</small></dd></div>"
        for name, value, small in _rows(report)
    )
    return f'<dl class="figures">\n{rows}\n</dl>'


def _rows(report: Report) -> Iterator[tuple[str, str, str]]:
    whole = report.summary
    both = whole.jobs - whole.without_mfu
    yield "Jobs", f"{whole.jobs:,}", f"{both:,} with MFU, {whole.without_mfu:,} without"
    nobody = f", {hours(whole.nobody_h)} without a job" if whole.nobody_h else ""
    yield "GPU-hours", hours(whole.held_h), f"{percent(whole.coverage)} with counters{nobody}"
    yield "OFU", percent(whole.ofu), "mean over GPU time"
    share = whole.lost_h / whole.seen_h if whole.seen_h else None
    target = f"against an OFU of {percent(report.target_ofu, 0)}"
    yield "GPU-hours lost", hours(whole.lost_h), f"{percent(share)}, {target}"
    yield "GPU-hours idle", hours(whole.idle_h), "no kernel ran"
    yield "Flagged", f"{whole.flagged:,}", _compared(whole)
    yield "Pearson r", plain(whole.every.r), _after(whole.every, plain(whole.kept.r), whole.kept)
    error = f"{plain(_points(whole.kept))} points"
    yield "Mean absolute error", _error(whole.every), _after(whole.every, error, whole.kept)


def _compared(whole: Summary) -> str:
    short = f", {whole.short:,} of them too short to judge" if whole.short else ""
    return f"of {whole.every.jobs:,} compared{short}"


def _points(agreement: Agreement) -> float | None:
    return None if agreement.error is None else 100 * agreement.error


def _error(agreement: Agreement) -> str:
    value = plain(_points(agreement))
    return value if agreement.error is None else f"{value} points"


def _after(every: Agreement, value: str, kept: Agreement) -> str:
    """What is left when flagged jobs are left out."""
    if every.jobs == kept.jobs:
        return f"over {counted(every.jobs, 'job')}"
    return f"{counted(every.jobs, 'job')}; {value} without the flagged ({kept.jobs:,})"
