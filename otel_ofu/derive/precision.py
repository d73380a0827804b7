"""Which number format FLOP rates speak about: declared, else what the pipes give away.

Enters: the share of cycles of the HMMA, IMMA and DFMA pipes. Leaves: a `PrecisionDomain`, held
stable. FP16, BF16, TF32 and FP8 run on one pipe and are never guessed apart. Source: DCGM fields
1013-1015; NVIDIA/DCGM issues 86 and 252 (no counter shows FP8 or FP4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from otel_ofu.catalog.skus import PRECISIONS

DECLARABLE = frozenset((*PRECISIONS, "mixed", "unknown"))

# Our own starting values, not measured: a pipe must carry two thirds of the tensor work, in windows
# with at least 1 % of it, three times in a row; each switch makes a new resource downstream.
DOMINANT_SHARE = 2 / 3
LEAST_ACTIVITY = 0.01
AGREEING_WINDOWS = 3

_PIPES = {"tensor_imma_active": "int8", "tensor_dfma_active": "fp64", "tensor_hmma_active": ""}


@dataclass(frozen=True, slots=True)
class PrecisionDomain:
    """A precision domain (registry attribute `ofu.precision`) and where it came from."""

    precision: str
    source: Literal["declared", "detected", "default"]


def declared(name: str) -> PrecisionDomain:
    """The domain as declared; a name that is not allowed gives `unknown`."""
    name = name.strip().lower()
    return PrecisionDomain(name if name in DECLARABLE else "unknown", "declared")


def indicated(values: Mapping[str, float]) -> str | None:
    """What the pipes show: `int8`, `fp64`, empty for the HMMA formats, None if nothing."""
    active = {pipe: values.get(pipe, 0.0) for pipe in _PIPES}
    total = sum(active.values())
    if total < LEAST_ACTIVITY:
        return None
    pipe, most = max(active.items(), key=lambda item: item[1])
    return _PIPES[pipe] if most >= DOMINANT_SHARE * total else None


class PrecisionDetector:
    """The detected domain of one entity. A window that shows nothing changes nothing."""

    def __init__(self) -> None:
        self._current = ""
        self._candidate = ""
        self._agreeing = 0

    def observe(self, values: Mapping[str, float], default: str) -> PrecisionDomain:
        """The domain after one more window; `default` (of the SKU) while the pipes show nothing."""
        seen = indicated(values)
        if seen is not None:
            self._agreeing = self._agreeing + 1 if seen == self._candidate else 1
            self._candidate = seen
            if self._agreeing >= AGREEING_WINDOWS:
                self._current = seen
        return (
            PrecisionDomain(self._current, "detected")
            if self._current
            else PrecisionDomain(default, "default")
        )
