"""The table of causes for docs/causes.md.

Enters: the causes. Leaves: lines of Markdown.
"""

from __future__ import annotations

from collections.abc import Iterator

from otel_ofu.diagnose.cause import Cause, CauseBook


def cause_table(book: CauseBook) -> Iterator[str]:
    """One row a cause, in the order of the file."""
    yield "| id | what | severity | what tells it apart | what looks like it |"
    yield "|---|---|---|---|---|"
    yield from map(_row, book.causes)


def _row(cause: Cause) -> str:
    severity = f"{cause.severity}, meant to be" if cause.legitimate else cause.severity
    cells = (f"`{cause.id}`", cause.title, severity, cause.remark, cause.confounders or "-")
    return f"| {' | '.join(cells)} |"
