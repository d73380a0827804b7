"""An `MfuReport` for other programs: CSV with a row for each job, JSON with everything.

Units stand in the names; `_h` is GPU-hours, no suffix is a ratio. A value that is not known is an
empty cell, or null.
"""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

from otel_ofu.report.result import Job, MfuReport
from otel_ofu.report.text import clean

# A spreadsheet takes a cell that begins so for a formula, and names of jobs are anybody's.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(report: MfuReport) -> str:
    """RFC 4180; the first row names the columns."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS)
    writer.writeheader()
    writer.writerows(_row(job) for job in report.jobs)
    return out.getvalue()


def json_text(report: MfuReport) -> str:
    """An object with `summary`, `jobs` (each with its `series`) and `notes`."""
    whole = report.summary
    tree = {
        "start_s": report.start_s,
        "end_s": report.end_s,
        "bucket_s": report.bucket_s,
        "target_ofu": report.target_ofu,
        "sources": list(report.sources),
        "summary": {
            "jobs": whole.jobs,
            "jobs_without_mfu": whole.without_mfu,
            "jobs_too_short": whole.short,
            "jobs_flagged": whole.flagged,
            "jobs_compared": whole.every.jobs,
            "pearson_r": whole.every.r,
            "pearson_r_without_flagged": whole.kept.r,
            "mean_absolute_error": whole.every.error,
            "mean_absolute_error_without_flagged": whole.kept.error,
            "ofu": whole.ofu,
            "coverage": whole.coverage,
            "held_h": whole.held_h,
            "observed_h": whole.seen_h,
            "idle_h": whole.idle_h,
            "lost_h": whole.lost_h,
            "without_job_h": whole.without_job_h,
        },
        "jobs": [_tree(job) for job in report.jobs],
        "without_job": _tree(report.without_job) if report.without_job else None,
        "notes": list(report.notes),
    }
    return json.dumps(tree, ensure_ascii=True, allow_nan=False) + "\n"


def _tree(job: Job) -> dict[str, Any]:
    series = job.series
    return {
        **_figures(job),
        "job": job.id,
        "skus": sorted(job.about.skus),
        "precisions": sorted(job.about.precisions),
        "reasons": list(job.reasons),
        "series": {
            "times_s": series.times_s.tolist(),
            "ofu": [_known(value) for value in series.ofu.tolist()],
            "mfu": [_known(value) for value in series.mfu.tolist()],
        },
    }


def _row(job: Job) -> dict[str, object]:
    names = {
        "job": job.id,
        "skus": " ".join(sorted(job.about.skus)),
        "precisions": " ".join(sorted(job.about.precisions)),
    }
    cells = {**names, **_figures(job), "reasons": "; ".join(job.reasons)}
    return {name: _cell(cells[name]) for name in COLUMNS}


def _figures(job: Job) -> dict[str, object]:
    return {
        "gpus": job.gpus,
        "hosts": len(job.about.hosts) or None,
        "start_s": job.start_s,
        "end_s": job.end_s,
        "held_h": job.held_h,
        "observed_h": job.seen_h,
        "idle_h": job.idle_h,
        "lost_h": job.lost_h,
        "coverage": job.coverage,
        "ofu": job.ofu,
        "ofu_while_mfu": job.ofu_then,
        "mfu": job.mfu,
        "mfu_over_ofu": job.ratio,
        "compared_s": job.both_s,
        "printed_over_our_peak": job.peak_ratio,
        "mfu_over_own_peak": job.own_peak,
        "verdict": job.verdict.kind,
    }


COLUMNS = (
    *("job", "skus", "precisions", "gpus", "hosts", "start_s", "end_s", "held_h", "observed_h"),
    *("idle_h", "lost_h", "coverage", "ofu", "ofu_while_mfu", "mfu", "mfu_over_ofu", "compared_s"),
    *("printed_over_our_peak", "mfu_over_own_peak", "verdict", "reasons"),
)


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"  # noqa: PLR2004 - times
    if isinstance(value, str):
        text = clean(value)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return "" if value is None else value


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
