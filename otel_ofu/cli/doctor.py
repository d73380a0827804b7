"""`otel-ofu doctor`: what works here, what does not, what to do about it.

Enters: a config, or a page. Leaves: a report; exit status 1 if the agent could not run, a
configured endpoint gives nothing, or the page does not give an OFU for each GPU.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from otel_ofu import __version__
from otel_ofu.app.doctor import Check, GpuReport, Report, examine
from otel_ofu.app.page_report import examine_page
from otel_ofu.cli import doctor_page, options
from otel_ofu.config import Config
from otel_ofu.model.clock import SystemClock


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Examines every source of counters, every GPU and every endpoint, changes "
        "nothing, and ends with 1 if the agent could not run or an endpoint that it reads gives "
        "nothing. With --page it shows what one page of an exporter gives, line by line, and what "
        "to set for an OFU; it ends with 0 if each GPU on it has an OFU and every line could be "
        "read, else with 1."
    )
    options.add_config(parser)
    parser.add_argument(
        "--page",
        metavar="FILE|URL",
        help="examine this page of an exporter alone: a file or pipe, - for standard input, or a "
        "URL, with the credentials that the configuration has for it; timestamps of a file are "
        "held against its newest",
    )
    parser.set_defaults(verb=run)


def run(arguments: argparse.Namespace) -> int:
    config = options.config_of(arguments)
    if arguments.page is not None:
        return _page(arguments.page, config)
    report = examine(config, os.environ, SystemClock())
    print(f"otel-ofu {__version__}, config: {arguments.config or 'defaults'}")
    for line in lines(report):
        print(line)
    return 0 if report.able and not report.silent else 1


def _page(target: str, config: Config) -> int:
    report = examine_page(target, config, SystemClock())
    print(f"otel-ofu {__version__}, page: {report.name}")
    for line in doctor_page.lines(report):
        print(line)
    return 0 if report.is_complete else 1


def lines(report: Report) -> Iterator[str]:
    """The report as text."""
    yield "\nSources"
    for check in report.sources:
        yield from _check(check)
    if report.gpus:
        yield "\nGPUs"
    for gpu in report.gpus:
        yield from _gpu(gpu)
    yield "\nElse"
    for check in report.others:
        yield from _check(check)
    yield f"\n{_verdict(report)}"


def _verdict(report: Report) -> str:
    if not report.able:
        return "the agent cannot run here: see the arrows above"
    if report.silent:
        return f"the agent can run, without {', '.join(report.silent)}"
    return "the agent can run"


def _gpu(gpu: GpuReport) -> Iterator[str]:
    yield f"  {gpu.name}"
    for text in (gpu.reference, gpu.ofu):
        if text:
            yield f"      {text}"
    for check in gpu.sources:
        yield f"      {'+' if check.ok else '-'} {check.subject}: {check.message}"


def _check(check: Check) -> Iterator[str]:
    yield f"  {'+' if check.ok else '-'} {check.subject:8} {check.message}"
    if check.remedy:
        yield f"             -> {check.remedy}"
    for part in check.parts:
        yield f"      - {part.message}"
        if part.remedy:
            yield f"             -> {part.remedy}"
