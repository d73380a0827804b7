"""`otel-ofu report`: OFU beside MFU, job by job, as a page.

Enters: recordings, or a server of the Prometheus family. Leaves: one HTML file, and the same as CSV
and JSON beside it.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from otel_ofu import __version__
from otel_ofu.app.report_prometheus import read_prometheus, time_buckets
from otel_ofu.app.report_recordings import read_recordings, read_reports
from otel_ofu.cli import options
from otel_ofu.files.settings import Duration
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.report import MfuReport, ReportBuilder, csv_text, json_text, page, report_of
from otel_ofu.report.text import counted
from otel_ofu.rules.promql.server import QueryClient
from otel_ofu.rules.settings import ServerSettings
from otel_ofu.sources.recording import read_column_map

DEFAULT_SINCE_S = 86400.0
QUERY_TIMEOUT = Duration(30)
"""Starting value: a query over a day of a whole fleet."""
RECORDING_STEP_S = 30.0


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "OFU of every job beside the MFU that it reports, how well they agree, and whose MFU "
        "cannot be right: one HTML page, and the numbers as CSV and JSON beside it. docs/report.md."
    )
    parser.add_argument("recordings", nargs="*", metavar="RECORDING", help="of `otel-ofu record`")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="NAME.html")
    parser.add_argument(
        "--target-ofu",
        type=_share,
        default=0.4,
        metavar="SHARE",
        help="what GPU time is held against (default 40%%)",
    )
    options.add_config(parser)
    _add_recordings(parser)
    _add_server(parser)
    parser.set_defaults(verb=run)


def _add_recordings(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("recordings")
    group.add_argument(
        "--reports",
        action="append",
        default=[],
        metavar="FILE",
        help="what jobs reported, as JSON lines with time_s, job, mfu, tflops_per_gpu",
    )
    group.add_argument("--job", default="", metavar="ID", help="the job of GPUs that have none")
    group.add_argument("--columns", metavar="MAP", help="column map (YAML) of a CSV")


def _add_server(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Prometheus, Mimir, Thanos, VictoriaMetrics")
    group.add_argument(
        "--from", dest="url", metavar="URL", help="the part of the URL before /api/v1/query"
    )
    when = "a time ago (24h) or a moment (2026-11-01T00:00)"
    group.add_argument("--since", type=_moment, metavar="WHEN", help=f"{when}; default 24h")
    group.add_argument("--until", type=_moment, metavar="WHEN", help="the same; default now")
    group.add_argument("--step", type=options.duration, metavar="TIME", help="width of a mean")
    group.add_argument("--username", default="", metavar="NAME")
    group.add_argument("--password-file", default="", metavar="FILE")
    group.add_argument("--bearer-token-file", default="", metavar="FILE")
    group.add_argument("--tenant", default="", metavar="ID", help="X-Scope-OrgID")
    group.add_argument("--ca-file", default="", metavar="FILE")


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    outputs = _outputs(arguments)
    progress = options.ProgressWriter()
    made = _from_server(arguments, progress) if arguments.url else _recorded(arguments, progress)
    progress.end()
    texts = (page(made, f"otel-ofu {__version__}"), csv_text(made), json_text(made))
    for path, text in zip(outputs, texts, strict=True):
        _write(path, text)
    for line in _lines(made, outputs):
        print(line)
    return 0


def _recorded(arguments: argparse.Namespace, progress: options.ProgressWriter) -> MfuReport:
    config = options.config_of(arguments)
    columns = read_column_map(arguments.columns) if arguments.columns else None
    gather = ReportBuilder(arguments.target_ofu, RECORDING_STEP_S, arguments.job)
    paths: Sequence[str] = arguments.recordings
    notes = read_recordings(gather, paths, config.receivers.gpu, columns, progress.at)
    read_reports(gather, arguments.reports)
    return report_of(gather, [*paths, *arguments.reports], notes)


def _from_server(arguments: argparse.Namespace, progress: options.ProgressWriter) -> MfuReport:
    now_s = time.time()
    until_s = arguments.until(now_s) if arguments.until else now_s
    since_s = arguments.since(now_s) if arguments.since else until_s - DEFAULT_SINCE_S
    buckets = time_buckets(since_s, until_s, arguments.step)
    gather = ReportBuilder(arguments.target_ofu, buckets.step_s)
    with closing(QueryClient(_settings(arguments))) as server:
        notes = read_prometheus(gather, server, buckets, progress.at)
    return report_of(gather, [arguments.url], notes)


def _settings(arguments: argparse.Namespace) -> ServerSettings:
    return options.checked(
        ServerSettings(
            url=arguments.url,
            username=arguments.username,
            password_file=arguments.password_file,
            bearer_token_file=arguments.bearer_token_file,
            tenant=arguments.tenant,
            ca_file=arguments.ca_file,
            timeout=QUERY_TIMEOUT,
        ),
        {"url": "--from"},
    )


def _check(arguments: argparse.Namespace) -> None:
    options.refuse_both("RECORDING", "--from", [bool(arguments.recordings), bool(arguments.url)])
    if not arguments.recordings and not arguments.url:
        raise options.misused("name recordings, or --from URL")
    if arguments.url and (arguments.reports or arguments.job or arguments.columns):
        raise options.misused("--reports, --job and --columns go with recordings, not with --from")
    if not arguments.url and (arguments.since or arguments.until or arguments.step):
        raise options.misused(
            "--since, --until and --step go with --from; recordings are taken whole"
        )


def _outputs(arguments: argparse.Namespace) -> tuple[Path, Path, Path]:
    """The page, the CSV and the JSON; never a file that is read."""
    html = Path(arguments.output)
    if html.suffix.lower() not in (".html", ".htm"):
        raise options.misused(f"--output {html}: a name that ends in .html")
    outputs = (html, html.with_suffix(".csv"), html.with_suffix(".json"))
    read = {Path(path).resolve() for path in (*arguments.recordings, *arguments.reports)}
    for path in outputs:
        if path.resolve() in read:
            raise options.misused(f"{path} is read, and would be written; another --output")
    return outputs


def _write(path: Path, text: str) -> None:
    """The old file stays until the new one is whole."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, "utf-8", newline="")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise OtelOfuError(f"{path}: cannot be written: {error.strerror}") from error


def _lines(made: MfuReport, outputs: Sequence[Path]) -> list[str]:
    whole = made.summary
    both = whole.jobs - whole.without_mfu
    first = f"{counted(whole.jobs, 'job')}, {both:,} with MFU; {whole.flagged:,} flagged"
    return [first, ", ".join(str(path) for path in outputs), *made.notes]


def _share(text: str) -> float:
    """An argparse type: `40%` or `0.4`."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)(%?)", text)
    share = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: above 0, at most 100%, such as 40%")
    return share


class _Moment:
    """A time ago, or a moment; Unix seconds once it is known what time it is."""

    def __init__(self, ago_s: float | None, at_s: float) -> None:
        self._ago_s = ago_s
        self._at_s = at_s

    def __call__(self, now_s: float) -> float:
        return self._at_s if self._ago_s is None else now_s - self._ago_s


def _moment(text: str) -> _Moment:
    """An argparse type."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return _Moment(options.duration(text), 0.0)
    return _Moment(None, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
