"""What jobs got out of their GPUs, and whether what they report of themselves can be true.

gather (observations, reports -> sums by job and time) -> result (figures, verdicts) -> page, files.
It knows no source and no server: whoever has observations hands them in.
"""

from otel_ofu.report.gather import GpuTime, ReportBuilder, SpeedReport
from otel_ofu.report.page import page
from otel_ofu.report.result import Job, JobsSummary, MfuReport, report_of
from otel_ofu.report.tables import csv_text, json_text

__all__ = [
    "GpuTime",
    "Job",
    "JobsSummary",
    "MfuReport",
    "ReportBuilder",
    "SpeedReport",
    "csv_text",
    "json_text",
    "page",
    "report_of",
]
