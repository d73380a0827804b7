"""One line per round, for pipes and log files.

Enters: the observations of a round. Leaves: a line such as
`12:00:10 8 GPUs OFU 41.2% (min 40.1% max 42.0%) GPU util 99% power 5.1 kW`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TextIO

from otel_ofu.export.console.rows import DASH, has_nothing_new, rows
from otel_ofu.model import Observation


class Lines:
    """Writes to `out`; the reasons of absent values are written when they change."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._reasons: list[str] = []
        self._shown_s: float | None = None

    def export(self, observations: Sequence[Observation]) -> None:
        gpus = [o for o in observations if o.entity.kind == "gpu"]
        end_s = gpus[0].window.end_s if gpus else self._shown_s
        if end_s == self._shown_s or (self._shown_s is not None and has_nothing_new(gpus)):
            return
        self._shown_s = end_s
        _, reasons = rows(gpus)
        self._write(summary(gpus))
        if reasons != self._reasons:
            for reason in reasons:
                self._write(f"         {reason}")
            self._reasons = reasons

    def note(self, text: str) -> None:
        """Writes a line of its own."""
        self._write(text)

    def close(self) -> None:
        self._out.flush()

    def _write(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()


def summary(gpus: Sequence[Observation]) -> str:
    """The round in one line; statistics are over the GPUs that have a value."""
    at = datetime.fromtimestamp(gpus[0].window.end_s, UTC).strftime("%H:%M:%S")
    parts = [at, f"{len(gpus)} GPU{'s' if len(gpus) != 1 else ''}", _ofu(gpus)]
    for title, key in (("tensor", "tensor_active"), ("GPU util", "gpu_util")):
        values = _values(gpus, key)
        if values:
            parts.append(f"{title} {100 * sum(values) / len(values):.0f}%")
    power = _values(gpus, "power")
    if power:
        parts.append(f"power {sum(power) / 1000:.1f} kW")
    return "  ".join(parts)


def _ofu(gpus: Sequence[Observation]) -> str:
    values = _values(gpus, "ofu")
    if not values:
        return f"OFU {DASH}"
    mean = f"OFU {100 * sum(values) / len(values):.1f}%"
    known = f" of {len(values)} GPUs" if len(values) < len(gpus) else ""
    spread = f" (min {100 * min(values):.1f}% max {100 * max(values):.1f}%)"
    return mean + known + (spread if len(values) > 1 else "")


def _values(gpus: Sequence[Observation], key: str) -> list[float]:
    return [o.values[key] for o in gpus if key in o.values]
