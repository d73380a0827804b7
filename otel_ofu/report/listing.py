"""The tables of the page: a `Report` -> HTML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_ofu.report.reasons import MISTAKES
from otel_ofu.report.result import HOUR_S, Job, Report
from otel_ofu.report.text import UNKNOWN, hours, html, percent, plain, points

MOST_ROWS = 1000


def mistakes() -> str:
    """What a ratio tells."""
    rows = "\n".join(
        f'<tr><td class="n">{m.factor}</td><td>{html(m.text)}</td></tr>' for m in MISTAKES
    )
    head = '<thead><tr><th class="n">MFU / OFU</th><th>What gives such a ratio</th></tr></thead>'
    return f'<div class="over"><table>{head}<tbody>\n{rows}\n</tbody></table></div>'


def outliers(jobs: Sequence[Job]) -> Iterator[str]:
    """The flagged jobs, and those that print an MFU over another peak; the furthest off first."""
    shown = [j for j in jobs if j.verdict.flagged or j.other_peak]
    if not any(j.mfu is not None for j in jobs):
        return
    yield "<section>\n<h2>Whose MFU cannot be right</h2>"
    if not shown:
        yield '<p class="quiet">Nobody\'s: no job is flagged.</p>\n</section>'
        return
    shown.sort(key=lambda j: (not j.verdict.flagged, -abs((j.mfu or 0) - (j.ofu_then or 0))))
    yield '<div class="over"><table><thead><tr><th>Job</th>'
    for name in ("GPUs", "OFU", "MFU", "Points", "MFU / OFU", "Compared"):
        yield f'<th class="n">{name}</th>'
    yield "<th>Likely reason</th></tr></thead><tbody>"
    yield from (_outlier(job) for job in shown[:MOST_ROWS])
    yield f"</tbody></table></div>{_rest(len(shown))}\n</section>"


def all_jobs(report: Report) -> Iterator[str]:
    """Every job, the most lost GPU-hours first."""
    if not report.jobs:
        return
    yield "<section>\n<h2>All jobs</h2>"
    yield (
        '<p class="quiet">Most GPU-hours lost first. MFU in italics is over a peak that the '
        "job chose, since it says no FLOP rate.</p>"
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
    verdict = f'<td class="short">{WORDS[job.verdict.kind]}</td>'
    return f'<tr>{_name(job)}<td class="short">{sku}</td>{_numbers(cells)}{verdict}</tr>'


WORDS = {
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
