"""Stories with their right answers: stories.yaml -> `Told`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import yaml

from otel_ofu.sources.demo import Scenario, TroubleSpan

FOLDER = Path(__file__).resolve().parent


class Story(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One labelled story; the head of stories.yaml explains the keys."""

    name: str
    title: str = ""
    spans: list[TroubleSpan] = []
    causes: list[str] = []
    accept: list[str] = []
    indistinct: str = ""
    quiet: bool = False
    gpus: int = 8
    noise: float = 0.02
    seed: int = 0
    interval_s: float = 30.0
    length_s: float = 5_700.0
    start_s: float = 3_600.0
    within_s: float | None = None
    hide: list[str] = []
    gaps: float = 0.0
    host: bool = True
    flags: bool = True
    reports: bool = True
    fast: bool = False

    @property
    def scenario(self) -> Scenario:
        return Scenario(spans=self.spans, noise=self.noise)

    @property
    def right(self) -> frozenset[str]:
        """What may stand first."""
        return frozenset([*self.causes, *self.accept])


@cache
def stories() -> tuple[Story, ...]:
    tree = yaml.safe_load((FOLDER / "stories.yaml").read_text("utf-8"))
    return tuple(msgspec.convert(tree, list[Story]))
