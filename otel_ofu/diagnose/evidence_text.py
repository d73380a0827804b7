"""Evidence as text, always with its numbers.

Enters: evidence at one row. Leaves: lines such as `avg(tensor_active, 5m) = 4.2% (< 15%)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from otel_ofu.catalog.registry import Registry
from otel_ofu.diagnose.scoring import AGREES, CauseScores, EvidenceScores
from otel_ofu.rules.annotations import FILTERS
from otel_ofu.rules.language.printing import to_text
from otel_ofu.rules.language.syntax import (
    Arithmetic,
    Compare,
    FlagCondition,
    Latest,
    Node,
    Number,
    Over,
    Sign,
    walk,
)
from otel_ofu.rules.verdicts import HOLDS, UNKNOWN, EntityComparison

FLAG_ALONE = "flag present, counters do not agree"
MAX_FLAGS_NAMED = 3
_IS_SET = " is set"

_FILTER_OF: Mapping[str, str] = {
    "1": "percent",
    "Hz": "hertz",
    "By": "bytes",
    "By/s": "bytes",
    "W": "watts",
    "s": "duration",
    "Cel": "celsius",
}


@dataclass(frozen=True, slots=True)
class EvidenceTexts:
    """What speaks for a cause at one row, what against it, and what could not be read."""

    evidence: list[str] = field(default_factory=list)
    against: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)


class EvidenceWriter:
    """Numbers in the units of the registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._shown: dict[Node, str] = {}

    def texts(self, scored: CauseScores, row: int) -> EvidenceTexts:
        """All evidence of a cause at a row."""
        texts = EvidenceTexts()
        if scored.alone[row]:
            texts.against.append(FLAG_ALONE)
        for one in scored.evidence:
            share = float(one.shares[row])
            if math.isnan(share):
                texts.unchecked.extend(_unchecked(one, row))
                continue
            holds = share >= AGREES
            lines = self._lines(one, row, holds=holds)
            if one.evidence.speaks == "for":
                (texts.evidence if holds else texts.against).extend(lines)
            elif holds:
                texts.against.extend(lines)
        return texts

    def _lines(self, one: EvidenceScores, row: int, *, holds: bool) -> Iterator[str]:
        if one.judgement is None:
            yield f"the GPU {'has' if holds else 'has no'} {one.evidence.attribute}"
        elif one.evidence.is_flag and not holds:
            flags = [e.node for e in one.judgement.comparisons]
            yield f"no flag seen at the start of the processes ({_listed(flags)})"
        else:
            yield from self._compared(one.judgement.at(int(one.columns[row])), holds=holds)

    def _compared(self, seen: Sequence[EntityComparison], *, holds: bool) -> Iterator[str]:
        wanted = [s for s in seen if (s.verdict == HOLDS) == holds and s.verdict != UNKNOWN]
        for one in wanted or [s for s in seen if s.verdict != UNKNOWN]:
            yield self.compared(one)

    def compared(self, seen: EntityComparison) -> str:
        """`metric = value (< threshold)`."""
        node = seen.node
        if isinstance(node, FlagCondition):
            return f"{node.name}{_IS_SET}" if seen.verdict == HOLDS else f"{node.name} is not set"
        show = self._shower(node)
        plain = isinstance(node.right, Number)
        bound = show(seen.threshold) if plain else to_text(node.right)
        number = "" if plain else f" = {show(seen.threshold)}"
        wanted = "" if seen.verdict == HOLDS else "expected "
        return (
            f"{to_text(node.left)} = {show(seen.value)}"
            f" ({wanted}{node.comparator.value} {bound}{number})"
        )

    def _shower(self, node: Compare) -> Callable[[float], str]:
        if node.left not in self._shown:
            self._shown[node.left] = _FILTER_OF.get(self._unit(node.left), "humanize")
        return FILTERS[self._shown[node.left]]

    def _unit(self, left: Node) -> str:
        quotients = (Sign.DIVIDE, Sign.MULTIPLY)
        if any(isinstance(n, Arithmetic) and n.sign in quotients for n in walk(left)):
            return ""
        for node in walk(left):
            if isinstance(node, Latest | Over):
                if isinstance(node, Over) and node.function in ("count", "rate"):
                    return ""
                metric = self._registry.metrics.get(node.metric.partition(":")[0])
                return metric.unit if metric else ""
        return ""


def flags_set(evidence: Sequence[str]) -> tuple[str, ...]:
    """The flags that are set by lines of evidence, each once."""
    names = (line.removesuffix(_IS_SET) for line in evidence if line.endswith(_IS_SET))
    return tuple(dict.fromkeys(names))


def _unchecked(one: EvidenceScores, row: int) -> Iterator[str]:
    if one.judgement is None:
        yield f"{one.evidence.attribute} of the GPU"
    elif one.evidence.is_flag:
        yield f"flags of the processes ({_listed([e.node for e in one.judgement.comparisons])})"
    elif one.columns[row] < 0:
        yield f"{to_text(one.judgement.condition.expression.root)} (no such entity)"
    else:
        for seen in one.judgement.at(int(one.columns[row])):
            if seen.verdict == UNKNOWN:
                yield to_text(seen.node)


def _listed(nodes: Sequence[Compare | FlagCondition]) -> str:
    names = [node.name for node in nodes if isinstance(node, FlagCondition)]
    more = len(names) - MAX_FLAGS_NAMED
    return ", ".join(names[:MAX_FLAGS_NAMED]) + (f" and {more} more" if more > 0 else "")
