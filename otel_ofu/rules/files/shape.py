"""What a rule file may hold, as types; the JSON Schema for editors is made from them.

Durations and shares are text here: `mistakes` reads them.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from otel_ofu.model import EntityKind
from otel_ofu.rules.functions import all_functions

DURATION_PATTERN = r"^(0|([0-9]+(ms|[smhdw]))+)$"
_ORDERED_PATTERN = r"^(0|(?=[0-9])([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?)$"

Duration = Annotated[
    str | int,
    Meta(
        description="A duration such as 30s, 10m or 1h30m",
        extra_json_schema={"type": "string", "pattern": _ORDERED_PATTERN},
    ),
]
Share = Annotated[str | float, Meta(description="A share such as 50% or 0.5")]
Instants = Annotated[
    str | int | dict[str, str | int],
    Meta(description="A time from the start of the test, or one for each entity: {gpu0: 20m}"),
]


_CONDITION = "\n".join(
    [
        "The condition, e.g. avg(ofu, 10m) < 15%. Functions:",
        *(f"{usage}: {gives}" for usage, gives in all_functions()),
    ]
)


class _RuleBlock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of the file: unknown keys are mistakes."""


class CaseShape(_RuleBlock, frozen=True, kw_only=True):
    """One test of a rule. Without `fires_at` the rule has to stay quiet."""

    name: Annotated[str, Meta(description="What the rule does here")]
    series: Annotated[
        dict[str, str | int | float],
        Meta(description="metric or entity.metric -> samples: 0.1x90 _x6 0.5+0.01x30"),
    ]
    step: Annotated[Duration | None, Meta(description="Between samples; the group's interval")] = (
        None
    )
    fires_at: Instants | None = None
    resolves_at: Instants | None = None
    causes: Annotated[list[str], Meta(description="Causes that the diagnosis ranks first")] = []


class RuleShape(_RuleBlock, frozen=True, kw_only=True, rename={"for_": "for"}):
    """One rule. It has either `expr` or `silent_for`."""

    alert: Annotated[str, Meta(description="Name of the rule, unique over all files")]
    each: Annotated[EntityKind, Meta(description="What is judged: every gpu, job or node")]
    expr: Annotated[str, Meta(description=_CONDITION)] = ""
    silent_for: Annotated[
        Duration | None, Meta(description="Instead of expr: it was not seen for so long")
    ] = None
    for_: Annotated[Duration, Meta(description="How long the condition holds before it fires")] = 0
    clear: Annotated[str, Meta(description="It ends only when this holds as well")] = ""
    keep_firing_for: Annotated[Duration, Meta(description="How long it is calm before it ends")] = 0
    min_coverage: Annotated[
        Share, Meta(description="The part of a window that needs data; else it is unknown")
    ] = 0.5
    min_peers: Annotated[
        int, Meta(description="Fewest GPUs with a value to compare with peers")
    ] = 4
    missing_timeout: Annotated[
        Duration | None,
        Meta(description="Unknown for so long: it ends as no_data. 5 intervals by default"),
    ] = None
    limit: Annotated[
        int, Meta(description="Findings notified one by one; more are one summary. 0: no limit")
    ] = 0
    labels: Annotated[
        dict[str, str], Meta(description="severity: info, warning, error or critical; and others")
    ] = {}
    annotations: Annotated[
        dict[str, str], Meta(description="Texts for people, with {{ $value | percent }}")
    ] = {}
    causes: Annotated[list[str], Meta(description="Causes that a diagnosis considers")] = []
    shadow: Annotated[bool, Meta(description="Everything but the notification")] = False
    link: Annotated[str, Meta(description="A page with more, https://…")] = ""
    tests: list[CaseShape] = []


class _Group(_RuleBlock, frozen=True, kw_only=True):
    name: Annotated[str, Meta(description="Name of the group, unique over all files")]
    interval: Annotated[Duration, Meta(description="How often the rules are judged")] = "30s"


class GroupShape(_Group, frozen=True, kw_only=True):
    """Rules that are judged together."""

    rules: list[RuleShape]


class FileShape(_RuleBlock, frozen=True, kw_only=True):
    """Rules of otel-ofu."""

    groups: list[GroupShape]


class GroupOutline(_Group, frozen=True, kw_only=True):
    """A group whose rules are checked one by one, so that one mistake does not hide others."""

    rules: list[dict[str, Any]]


class FileOutline(_RuleBlock, frozen=True, kw_only=True):
    groups: list[GroupOutline]


# Source: json-schema.org, the dialect that msgspec writes.
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """JSON Schema, draft 2020-12, of one rule file."""
    made = msgspec.json.schema(FileShape)
    return {"$schema": DIALECT, "title": "Rules of otel-ofu", **made}
