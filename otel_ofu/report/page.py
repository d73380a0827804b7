"""An `MfuReport` as one HTML page that needs nothing else: no script, no font, no address.

Enters: an `MfuReport`. Leaves: the text of the page. All foreign text goes through `text.html`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files

from otel_ofu.report.charts import scatter, timeline
from otel_ofu.report.listing import all_jobs, figures, mistakes, outliers
from otel_ofu.report.reasons import NORMAL, OVER, UNDER
from otel_ofu.report.result import Job, MfuReport
from otel_ofu.report.text import clean, counted, html, moment, percent, span

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
            '<p class="quiet">No job has both. MFU comes from what jobs report of themselves '
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
