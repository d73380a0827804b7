"""What a file of causes may hold, as types."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from otel_ofu.model import EntityKind

Severity = Literal["S4", "S3", "S2", "S1", "S0"]


class _Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of the file: unknown keys are mistakes."""


class ClueShape(_Block, frozen=True, kw_only=True):
    """One piece of evidence: exactly one of `when`, `flags` and `has`."""

    weight: Annotated[float, Meta(description="How much of the score hangs on it, above 0 to 1")]
    when: Annotated[str, Meta(description="A condition in the language of rules")] = ""
    flags: Annotated[list[str], Meta(description="Any of these flags")] = []
    has: Annotated[str, Meta(description="An attribute that the GPU has")] = ""
    speaks: Literal["for", "against"] = "for"
    each: EntityKind | None = None


class CauseShape(_Block, frozen=True, kw_only=True):
    """One cause; the head of rules/causes.yaml explains the keys."""

    id: str
    title: str
    severity: Severity
    evidence: list[ClueShape]
    each: EntityKind = "gpu"
    spread: Literal["all", "some"] = "all"
    legitimate: bool = False
    explains: list[str] = []
    remark: str = ""
    confounders: str = ""
    next: list[str] = []
    link: str = ""


class CausesOutline(_Block, frozen=True, kw_only=True):
    """The file, with causes that are looked at one by one so that mistakes hide no others."""

    causes: list[dict[str, Any]]
    priors: dict[Severity, float] = {}
    groups: dict[str, list[str]] = {}
