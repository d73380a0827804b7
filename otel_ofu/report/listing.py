"""The numbers and tables of the page: an `MfuReport` -> HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_ofu.report.reasons import MISCOUNTS
from otel_ofu.report.result import HOUR_S, Agreement, Job, JobsSummary, MfuReport
from otel_ofu.report.text import UNKNOWN, counted, hours, html, percent, plain, points

# Starting value: a page that opens at once; the files hold all.
MOST_ROWS = 1000


def mistakes() -> str:
    """What a ratio means."""
    rows = "\n".join(
        f'<tr><td class="n">{m.factor}</td><td>{html(m.text)}</td></tr>' for m in MISCOUNTS
    )
    head = '<thead><tr><th class="n">MFU / OFU</th><th>What gives such a ratio</th></tr></thead>'
    return f'<div class="over"><table>{head}<tbody>\n{rows}\n</tbody></table></div>'


def outliers(jobs: Sequence[Job]) -> Iterator[str]:
    """The flagged jobs, and those that print an MFU over another peak; the furthest off first."""
    shown = [j for j in jobs if j.verdict.flagged or j.other_peak]
    if not any(j.mfu is not None for j in jobs):
        return
    yield "<section>\n<h2>Jobs whose MFU cannot be right</h2>"
    if not shown:
        yield '<p class="quiet">No job is flagged.</p>\n</section>'
        return
    shown.sort(key=lambda j: (not j.verdict.flagged, -abs((j.mfu or 0) - (j.ofu_then or 0))))
    yield '<div class="over"><table><thead><tr><th>Job</th>'
    for name in ("GPUs", "OFU", "MFU", "Points", "MFU / OFU", "Compared"):
        yield f'<th class="n">{name}</th>'
    yield "<th>Likely reason</th></tr></thead><tbody>"
    yield from (_outlier(job) for job in shown[:MOST_ROWS])
    yield f"</tbody></table></div>{_rest(len(shown))}\n</section>"


def all_jobs(report: MfuReport) -> Iterator[str]:
    """Every job, the most lost GPU-hours first."""
    if not report.jobs:
        return
    yield "<section>\n<h2>All jobs</h2>"
    yield (
        '<p class="quiet">Most GPU-hours lost first. MFU in italics is over a peak that the '
        "job chose, since it reports no FLOP rate.</p>"
    )
    yield '<div class="over"><table><thead><tr><th>Job</th><th>GPU</th>'
    names = ("GPUs", "GPU-hours", "Lost", "Idle", "Coverage", "OFU", "MFU", "MFU / OFU")
    yield from (f'<th class="n">{name}</th>' for name in names)
    yield "<th>MFU is</th></tr></thead><tbody>"
    yield from (_row(job) for job in report.jobs[:MOST_ROWS])
    yield f"</tbody></table></div>{_rest(len(report.jobs))}\n</section>"


def _outlier(job: Job) -> str:
    gap = None if job.mfu is None or job.ofu_then is None else job.mfu - job.ofu_then
    cells = [
        f"{job.gpus:,}",
        percent(job.ofu_then),
        percent(job.mfu),
        points(gap),
        plain(job.ratio),
        f"{job.both_s / HOUR_S:.1f} h",
    ]
    reasons = "".join(f"<li>{html(reason)}</li>" for reason in job.reasons)
    return f"<tr>{_name(job)}{_numbers(cells)}<td><ul>{reasons}</ul></td></tr>"


def _row(job: Job) -> str:
    mfu = percent(job.mfu)
    cells = [
        f"{job.gpus:,}",
        hours(job.held_h),
        hours(job.lost_h),
        hours(job.idle_h),
        percent(job.coverage, 0),
        percent(job.ofu),
        f"<i>{mfu}</i>" if job.own_peak else mfu,
        plain(job.ratio),
    ]
    sku = html(", ".join(sorted(job.about.skus)) or UNKNOWN)
    verdict = f'<td class="short">{VERDICT_TEXT[job.verdict.kind]}</td>'
    return f'<tr>{_name(job)}<td class="short">{sku}</td>{_numbers(cells)}{verdict}</tr>'


VERDICT_TEXT = {
    "over": '<span class="flag">over-counted</span>',
    "under": '<span class="flag">under-counted</span>',
    "normal": "plausible",
    "grey": "doubtful",
    "short": "too short to judge",
    "silent": "not reported",
    "unseen": "reported, without an OFU",
}


def _name(job: Job) -> str:
    flag = " flag" if job.verdict.flagged else ""
    return f'<td class="id{flag}">{html(job.id)}</td>'


def _numbers(cells: Sequence[str]) -> str:
    return "".join(f'<td class="n">{cell}</td>' for cell in cells)


def _rest(rows: int) -> str:
    if rows <= MOST_ROWS:
        return ""
    return f'<p class="quiet">{rows - MOST_ROWS:,} more are in the CSV file.</p>'


def figures(report: MfuReport) -> str:
    """A description list; the small print is what a number is over."""
    rows = "\n".join(
        f"<div><dt>{name}</dt><dd>{value}<small>{small}</small></dd></div>"
        for name, value, small in _rows(report)
    )
    return f'<dl class="figures">\n{rows}\n</dl>'


def _rows(report: MfuReport) -> Iterator[tuple[str, str, str]]:
    whole = report.summary
    both = whole.jobs - whole.without_mfu
    yield "Jobs", f"{whole.jobs:,}", f"{both:,} with MFU, {whole.without_mfu:,} without"
    without = f", {hours(whole.without_job_h)} without a job" if whole.without_job_h else ""
    yield "GPU-hours", hours(whole.held_h), f"{percent(whole.coverage)} with counters{without}"
    yield "OFU", percent(whole.ofu), "mean over GPU time"
    share = whole.lost_h / whole.seen_h if whole.seen_h else None
    target = f"against an OFU of {percent(report.target_ofu, 0)}"
    yield "GPU-hours lost", hours(whole.lost_h), f"{percent(share)}, {target}"
    yield "GPU-hours idle", hours(whole.idle_h), "no kernel ran"
    yield "Flagged", f"{whole.flagged:,}", _compared(whole)
    yield "Pearson r", plain(whole.every.r), _after(whole.every, plain(whole.kept.r), whole.kept)
    error = f"{plain(_points(whole.kept))} points"
    yield "Mean absolute error", _error(whole.every), _after(whole.every, error, whole.kept)


def _compared(whole: JobsSummary) -> str:
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
