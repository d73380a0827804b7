"""Causes as diagnosis holds them: checked, frozen, without a trace of YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from otel_ofu.rules.files.rule import FilePosition
from otel_ofu.rules.language.syntax import Expression, FlagCondition, walk

NOWHERE = FilePosition()
FLAGS = "{flags}"
"""What stands in a next step for the flags that are set."""

Speaks = Literal["for", "against"]
Spread = Literal["all", "some"]


@dataclass(frozen=True)
class CauseEvidence:
    """What speaks for or against a cause: a condition, or an attribute that the GPU has.

    `weight` in (0, 1]: how much of the score hangs on it. Exactly one of `condition` and
    `attribute` is set.
    """

    condition: Expression | None
    weight: float
    speaks: Speaks = "for"
    attribute: str = ""

    @cached_property
    def is_flag(self) -> bool:
        """Whether it is about flags alone, not about counters."""
        return self.condition is not None and _only_flags(self.condition)


@dataclass(frozen=True, slots=True)
class Cause:
    """One cause. `spread`: whether all GPUs of a job have to show it, or some are enough.

    `prior` in (0, 1]. `legitimate`: meant to be, so a finding with it is no page. `explains`: ids
    of causes whose signs follow from this one.
    """

    id: str
    title: str
    severity: str
    prior: float
    evidence: tuple[CauseEvidence, ...]
    spread: Spread = "all"
    legitimate: bool = False
    explains: frozenset[str] = frozenset()
    remark: str = ""
    confounders: str = ""
    next_steps: tuple[str, ...] = ()
    link: str = ""
    position: FilePosition = NOWHERE


@dataclass(frozen=True)
class CauseCatalogue:
    """All causes, in the order in which equal scores are ranked; ids and groups are unique."""

    causes: tuple[Cause, ...] = ()
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def names(self) -> frozenset[str]:
        """What `causes:` of a rule may list."""
        return frozenset([*(cause.id for cause in self.causes), *self.groups])

    @cached_property
    def flags(self) -> frozenset[str]:
        """The flags that some cause asks for."""
        nodes = (node for expression in self.expressions() for node in walk(expression.root))
        return frozenset(node.name for node in nodes if isinstance(node, FlagCondition))

    def expand(self, names: Iterable[str]) -> frozenset[str]:
        """Ids for names, with groups replaced by their causes."""
        return frozenset(one for name in names for one in self.groups.get(name, (name,)))

    def expressions(self) -> Iterator[Expression]:
        """Every condition, for how much history to keep."""
        for cause in self.causes:
            for evidence in cause.evidence:
                if evidence.condition is not None:
                    yield evidence.condition


def _only_flags(condition: Expression) -> bool:
    nodes = tuple(walk(condition.root))
    return any(isinstance(node, FlagCondition) for node in nodes) and not any(
        hasattr(node, "metric") for node in nodes if not isinstance(node, FlagCondition)
    )
