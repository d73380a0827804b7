"""An `MfuReport` as one HTML page that needs nothing else: no script, no font, no address.

Enters: an `MfuReport`. Leaves: the text of the page. All foreign text goes through `text.html`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files

from otel_ofu.report.charts import scatter, timeline
from otel_ofu.report.reasons import MISCOUNTS, NORMAL, OVER, STEPS, UNDER
from otel_ofu.report.result import HOUR_S, Agreement, Job, MfuReport
from otel_ofu.report.text import (
    UNKNOWN,
    clean,
    counted,
    hours,
    html,
    moment,
    percent,
    plain,
    points,
    span,
)

# Starting value: 60 pictures of 7 kB; the files hold all.
MOST_PICTURES = 60
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(report: MfuReport, made_by: str = "") -> str:
    """`made_by`: the program and its version, for the last line."""
    body = "\n".join(_body(report, made_by))
    style = files("otel_ofu.report").joinpath("page.css").read_text("utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>OFU and MFU of {counted(report.summary.jobs, 'job')}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _body(report: MfuReport, made_by: str) -> Iterator[str]:
    yield from _head(report)
    if report.start_s is None:
        yield '<p class="empty">There is nothing to show: the input has no readings of GPUs.</p>'
    else:
        yield figures(report)
        if not report.jobs:
            yield (
                '<p class="empty">No GPU has a job. <code>--job NAME</code> '
                "gives the GPUs without a job to one.</p>"
            )
        yield from _agreement(report)
        yield from outliers(report.jobs)
        yield from _pictures(report)
        yield from all_jobs(report)
    yield from _foot(report, made_by)


def _head(report: MfuReport) -> Iterator[str]:
    yield "<header>\n<h1>What the GPUs did, and what their jobs report</h1>"
    if report.start_s is not None and report.end_s is not None:
        length = span(report.end_s - report.start_s)
        yield (
            f'<p class="quiet">{moment(report.start_s)} to {moment(report.end_s)} UTC ({length}), '
            f"means over {span(report.bucket_s)}</p>"
        )
    shown = [html(source) for source in report.sources[:8]]
    more = len(report.sources) - len(shown)
    if shown:
        rest = f" and {more:,} more" if more else ""
        yield f'<p class="quiet">From {", ".join(shown)}{rest}</p>'
    yield "</header>"


def _agreement(report: MfuReport) -> Iterator[str]:
    drawn = scatter(report.jobs)
    yield "<section>\n<h2>MFU against OFU</h2>"
    if not drawn:
        yield (
            '<p class="quiet">No job has both. MFU comes from what jobs report '
            "(<code>--reports FILE</code> adds it to a recording).</p>\n</section>"
        )
        return
    yield (
        '<p class="quiet">OFU is what the tensor cores did, MFU what the job reports, both '
        "over the dense peak. OFU holds padding and recomputation as well, so a right MFU stands "
        "in the band just below the line.</p>"
    )
    yield f'<div class="beside">\n<figure>{drawn}<figcaption>One dot a job, over the time in which '
    yield (
        "both are known. Band: MFU at 0.70 to 1.05 of OFU, as it should be. Red: flagged."
        f"</figcaption></figure>\n{mistakes()}\n</div>\n</section>"
    )


def _pictures(report: MfuReport) -> Iterator[str]:
    if report.start_s is None or report.end_s is None:
        return
    ranked = sorted(report.jobs, key=lambda j: (not j.verdict.flagged, -j.held_h, j.id))
    shown = [*ranked[:MOST_PICTURES], *([report.without_job] if report.without_job else [])]
    yield "<section>\n<h2>Over time</h2>"
    yield (
        '<p class="quiet"><span class="key ofu" style="margin-left:0"></span>OFU, %'
        '<span class="key mfu"></span>MFU, %. Flagged jobs first, then by GPU-hours'
        f"{_left_out(len(ranked))}. A line breaks where there is no value.</p>"
    )
    yield '<div class="many">'
    for job in shown:
        yield _picture(job, (report.start_s, report.end_s))
    yield "</div>\n</section>"


def _left_out(jobs: int) -> str:
    return f"; {jobs - MOST_PICTURES:,} more are in the files" if jobs > MOST_PICTURES else ""


def _picture(job: Job, time: tuple[float, float]) -> str:
    name = html(job.id) if job.id else "GPUs without a job"
    flag = ' class="flag"' if job.verdict.flagged else ""
    summary = f"OFU {percent(job.ofu)}" + (
        f", MFU {percent(job.mfu)}" if job.mfu is not None else ""
    )
    gpus = counted(job.gpus, "GPU")
    return (
        f"<article><h3{flag}>{name}</h3><p>{gpus}, {summary}</p>"
        f"<figure>{timeline(job.series, time)}</figure></article>"
    )


def _foot(report: MfuReport, made_by: str) -> Iterator[str]:
    yield '<footer class="quiet">'
    for note in _notes(report.notes):
        yield f"<p>{note}</p>"
    yield (
        "<p>OFU: tensor pipe activity &times; SM clock / reference clock (arXiv:2605.20799), as a "
        "mean over the GPU time that a job held and that has counters; idle time counts as 0, time "
        "without counters does not count and shows as coverage. Compared with MFU over the same "
        f"time. Flagged: MFU / OFU above {OVER:.2f} or below {UNDER:.2f}, more than 3 points "
        "apart, for half an hour at least; doubtful: between that and "
        f"{NORMAL[0]:.2f} to {NORMAL[1]:.2f}. Lost GPU-hours: what the same work would have "
        f"saved at an OFU of {percent(report.target_ofu, 0)}.</p>"
    )
    if made_by:
        yield f"<p>{html(made_by)}</p>"
    yield "</footer>"


def _notes(notes: Sequence[str]) -> Iterator[str]:
    shown = list(dict.fromkeys(clean(note) for note in notes))
    yield from (html(note) for note in shown[:20])
    if len(shown) > 20:  # noqa: PLR2004 - as above
        yield f"{len(shown) - 20:,} more notes are in the JSON file."


# Starting value: a page that opens at once; the files hold all.
MOST_ROWS = 1000


def mistakes() -> str:
    """What a ratio means."""
    rows = "\n".join(
        f'<tr><td class="n">{m.factor}</td><td>{html(m.text)}</td></tr>' for m in MISCOUNTS
    )
    rows += (
        f'\n<tr><td class="n">1/{STEPS[0]} to 1/{STEPS[-1]}</td>'
        "<td>one of so many gradient accumulation steps counted; the ratio is constant</td></tr>"
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
    names = ("GPUs", "OFU", "MFU", "Points", "MFU / OFU", "Compared")
    yield from _table("<th>Job</th>", names, "Likely reason", [_outlier(job) for job in shown])


def all_jobs(report: MfuReport) -> Iterator[str]:
    """Every job, the most lost GPU-hours first."""
    if not report.jobs:
        return
    yield "<section>\n<h2>All jobs</h2>"
    yield (
        '<p class="quiet">Most GPU-hours lost first. MFU in italics is over a peak that the '
        "job chose, since it reports no FLOP rate.</p>"
    )
    names = ("GPUs", "GPU-hours", "Lost", "Idle", "Coverage", "OFU", "MFU", "MFU / OFU")
    rows = [_row(job) for job in report.jobs]
    yield from _table("<th>Job</th><th>GPU</th>", names, "MFU is", rows)


def _table(first: str, numbers: Sequence[str], last: str, rows: Sequence[str]) -> Iterator[str]:
    """The end of a section: `first` are heads of text, `numbers` and `last` those after them."""
    yield f'<div class="over"><table><thead><tr>{first}'
    yield from (f'<th class="n">{name}</th>' for name in numbers)
    yield f"<th>{last}</th></tr></thead><tbody>"
    yield from rows[:MOST_ROWS]
    more = len(rows) - MOST_ROWS
    rest = f'<p class="quiet">{more:,} more are in the CSV file.</p>' if more > 0 else ""
    yield f"</tbody></table></div>{rest}\n</section>"


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


def figures(report: MfuReport) -> str:
    """A description list; the small print is what a number is over."""
    rows = "\n".join(
        f"<div><dt>{name}</dt><dd>{value}<small>{small}</small></dd></div>"
        for name, value, small in _figures(report)
    )
    return f'<dl class="figures">\n{rows}\n</dl>'


def _figures(report: MfuReport) -> Iterator[tuple[str, str, str]]:
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
    short = f", {whole.short:,} of them too short to judge" if whole.short else ""
    yield "Flagged", f"{whole.flagged:,}", f"of {whole.every.jobs:,} compared{short}"
    yield "Pearson r", plain(whole.every.r), _after(whole.every, plain(whole.kept.r), whole.kept)
    error = _error(whole.kept)
    yield "Mean absolute error", _error(whole.every), _after(whole.every, error, whole.kept)


def _error(agreement: Agreement) -> str:
    return UNKNOWN if agreement.error is None else f"{plain(100 * agreement.error)} points"


def _after(every: Agreement, value: str, kept: Agreement) -> str:
    """What is left when flagged jobs are left out."""
    if every.jobs == kept.jobs:
        return f"over {counted(every.jobs, 'job')}"
    return f"{counted(every.jobs, 'job')}; {value} without the flagged ({kept.jobs:,})"
