"""A finding for the terminal: what, why, since when, what to do. Plain text, no colours."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from otel_ofu.model import Finding, RankedCause
from otel_ofu.rules.annotations import FILTERS, duration_words

WIDTH = 100
"""Columns of a terminal. Starting value."""
SHOWN = 4
"""Lines of evidence of the first cause. Starting value."""
_SHOWN_FACTS: Mapping[str, tuple[str, str]] = {
    "ofu": ("OFU", "percent"),
    "ofu_before": ("before", "percent"),
    "gpu_util": ("GPU utilization", "percent"),
    "tensor_active": ("tensor", "percent"),
    "clock_factor": ("clock", "percent"),
    "mfu": ("MFU", "percent"),
    "step_s": ("step", "duration"),
    "gpus": ("GPUs", "count"),
    "gpu_hours_lost": ("GPU-hours lost so far", "count"),
}


def card(finding: Finding, *, width: int = WIDTH) -> str:
    """A short card: headline, numbers, the likely causes with their evidence, next steps."""
    lines = [*_head(finding, width)]
    if finding.kind != "resolved":
        for rank, cause in enumerate(finding.causes, 1):
            lines += _cause(rank, cause, width, SHOWN if rank == 1 else 2)
        lines += _closing(finding, width)
    return "\n".join(lines)


def explain_finding(finding: Finding, *, width: int = WIDTH) -> str:
    """Everything that a finding rests on: all evidence, what speaks against, what is unread."""
    lines = [*_head(finding, width)]
    for rank, cause in enumerate(finding.causes, 1):
        lines += ["", *_cause(rank, cause, width, None)]
        lines += _part("remark", [cause.remark] if cause.remark else [], width)
        lines += _steps(cause.next_steps, width)
        lines += _part("see", [cause.link] if cause.link else [], width)
    lines += _closing(finding, width, steps=False)
    return "\n".join(lines)


def _head(finding: Finding, width: int) -> Iterator[str]:
    mark = "ended" if finding.kind == "resolved" else finding.severity
    clock = datetime.fromtimestamp(finding.at_s, UTC).strftime("%H:%M:%S")
    count = f" ({finding.count} findings)" if finding.count > 1 else ""
    yield from _wrapped(f"{clock} {mark.upper()} {finding.summary}{count}", width, "", "  ")
    if finding.kind == "resolved":
        lasted = duration_words(max(0.0, finding.at_s - finding.since_s))
        yield f"  {finding.reason.replace('_', ' ') or 'over'} after {lasted}"
        return
    numbers = ", ".join(_numbers(finding.facts))
    if numbers:
        yield from _wrapped(numbers, width, "  ", "  ")
    if began := finding.annotations.get("began"):
        yield f"  {began}"


def _numbers(facts: Mapping[str, float]) -> Iterator[str]:
    for name, (title, shown) in _SHOWN_FACTS.items():
        if name in facts:
            show = _count if shown == "count" else FILTERS[shown]
            yield f"{title} {show(facts[name])}"


def _count(value: float) -> str:
    """Two or three digits, and whole numbers whole."""
    if abs(value) < 1:
        return f"{value:.2g}"
    return f"{value:.0f}" if abs(value) >= 100 or value.is_integer() else f"{value:.3g}"  # noqa: PLR2004 - three digits


def _cause(rank: int, cause: RankedCause, width: int, most: int | None) -> Iterator[str]:
    yield from _wrapped(
        f"{rank}. {cause.title} [{cause.id} {cause.score:.2f}]", width, "  ", "     "
    )
    for mark, lines in (("+", cause.evidence), ("-", cause.against), ("?", cause.unchecked)):
        shown = list(lines[:most])
        for line in shown:
            text = f"not checked: {line}" if mark == "?" else line
            yield from _wrapped(f"{mark} {text}", width, "     ", "       ")
        if len(lines) > len(shown):
            yield f"     {mark} and {len(lines) - len(shown)} more"


def _closing(finding: Finding, width: int, *, steps: bool = True) -> Iterator[str]:
    if not finding.causes and finding.entity is not None:
        yield "  no known cause fits"
        if advice := finding.annotations.get("profile_next"):
            yield from _steps(advice.splitlines(), width)
    elif steps and finding.causes:
        yield from _steps(finding.causes[0].next_steps, width)
    if note := finding.annotations.get("legitimate"):
        yield f"  {note}"


def _part(name: str, lines: object, width: int) -> Iterator[str]:
    for line in lines if isinstance(lines, tuple | list) else ():
        yield from _wrapped(f"{name}: {line}", width, "  ", "        ")


def _steps(steps: Sequence[str], width: int) -> Iterator[str]:
    """Next steps; where one does not fit, the command after its colon has a line of its own.

    A command is never broken, so that it can be copied.
    """
    for step in steps:
        head, colon, command = step.partition(": ")
        if colon and len(f"  next: {step}") > width:
            yield from _part("next", [f"{head}:"], width)
            yield f"        {command}"
        else:
            yield from _part("next", [step], width)


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text,
        max(40, width),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
