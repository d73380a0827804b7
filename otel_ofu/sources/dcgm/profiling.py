"""Which profiling fields a GPU can take together: enters metric groups, leaves a choice.

Source: DCGM's feature overview, "Profiling Metrics": groups of one major id and other minor ids
take turns on Volta to Ada, and the values are extrapolated. Hopper and later take all together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.sources.dcgm.answers import MetricGroup

TENSOR_ACTIVE = 1004
ESSENTIAL = (TENSOR_ACTIVE, 1001, 1002, 1005)
"""What OFU and its first explanations need; asked for alone when all is too much."""

_FIRST, _LAST = 1001, 1199


@dataclass(frozen=True, slots=True)
class Choice:
    """Fields to watch, in the order asked for, and why each of the others is not."""

    taken: tuple[int, ...]
    left: Mapping[int, str]


def is_profiling(field_id: int) -> bool:
    return _FIRST <= field_id <= _LAST


def choose(wanted: Sequence[int], groups: Sequence[MetricGroup]) -> Choice:
    """Fields that never take turns; whatever stands first in `wanted` wins."""
    bound: dict[int, int] = {}
    first: dict[int, int] = {}
    taken: list[int] = []
    left: dict[int, str] = {}
    for field_id in wanted:
        homes = [g for g in groups if field_id in g.fields]
        home = next((g for g in homes if bound.get(g.major, g.minor) == g.minor), None)
        if home is not None:
            bound[home.major] = home.minor
            first.setdefault(home.major, field_id)
            taken.append(field_id)
        elif homes:
            left[field_id] = f"cannot be watched together with field {first[homes[0].major]}"
        else:
            left[field_id] = "this GPU has no such counter"
    return Choice(tuple(taken), left)


def attempts(fields: Sequence[int]) -> list[tuple[int, ...]]:
    """What to ask for, one after the other, while the engine answers that it is too much."""
    essential = tuple(f for f in fields if f in ESSENTIAL)
    alone = tuple(f for f in fields if f == TENSOR_ACTIVE)
    return [a for a in dict.fromkeys([tuple(fields), essential, alone]) if a]


def backend(groups: Sequence[MetricGroup], architecture: str, gpm: bool | None) -> str:  # noqa: FBT001 - a fact of the GPU, not an option
    """`gpm` or `multiplexed`; asked of the GPU where the engine knows (4.x), else inferred."""
    if gpm is None:
        takes_turns = len({g.major for g in groups}) < len(groups)
        return "multiplexed" if takes_turns and architecture not in _GPM_ARCHITECTURES else "gpm"
    return "gpm" if gpm else "multiplexed"


_GPM_ARCHITECTURES = frozenset({"hopper", "blackwell"})
