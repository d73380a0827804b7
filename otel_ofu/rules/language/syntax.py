"""The typed syntax tree of a rule condition. Frozen values: no parsing, no evaluation, no text.

Every node holds the `Span` of its text. Equality and hash leave spans out, so the same
sub-expression written twice is one key. A node is either `Numeric` or `Boolean`, never both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from otel_ofu.model import EntityKind


class Scope(StrEnum):
    """The owner of a metric: the entity under judgement, or the job or node that the GPU is in."""

    OWN = ""
    JOB = "job"
    NODE = "node"


class Relation(StrEnum):
    """Which GPUs: those of the same job and SKU (gpu rules), or all of the job or node."""

    PEERS = "peers"
    GPUS = "gpus"


class Sign(StrEnum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"


class Comparator(StrEnum):
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="
    EQUAL = "=="
    NOT_EQUAL = "!="


# What holds exactly where a comparison fails, and what says the same with its sides exchanged.
INVERSE: Mapping[Comparator, Comparator] = {
    Comparator.LESS: Comparator.GREATER_EQUAL,
    Comparator.LESS_EQUAL: Comparator.GREATER,
    Comparator.GREATER: Comparator.LESS_EQUAL,
    Comparator.GREATER_EQUAL: Comparator.LESS,
    Comparator.EQUAL: Comparator.NOT_EQUAL,
    Comparator.NOT_EQUAL: Comparator.EQUAL,
}
TURNED: Mapping[Comparator, Comparator] = {
    Comparator.LESS: Comparator.GREATER,
    Comparator.LESS_EQUAL: Comparator.GREATER_EQUAL,
    Comparator.GREATER: Comparator.LESS,
    Comparator.GREATER_EQUAL: Comparator.LESS_EQUAL,
    Comparator.EQUAL: Comparator.EQUAL,
    Comparator.NOT_EQUAL: Comparator.NOT_EQUAL,
}


@dataclass(frozen=True, slots=True)
class Span:
    """Where a node stands in the text of its expression: characters from 0."""

    offset: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Number:
    """A literal: `unit` is "" (bare), "1" (15% = 0.15) or "s" (a duration, 10m = 600)."""

    value: float
    unit: str = ""
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class Latest:
    """`ofu`, `job.mfu`: the last value of a metric, if it is fresh (<= max(3 steps, 60 s) old).

    `metric` is a registry key with its labels (`throttled:sw_power_cap`).
    """

    metric: str
    scope: Scope = Scope.OWN
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class Over:
    """`avg(ofu, 10m offset 1h)`, `job.max(mfu, 5m)`: a function over one metric's window.

    The window is (at - offset - window, at - offset]. `function` is a name of the table in
    otel_ofu.rules.functions, here and below; `q` in [0, 1] is set where it takes a share.
    """

    function: str
    metric: str
    window_s: float
    offset_s: float = 0.0
    q: float | None = None
    scope: Scope = Scope.OWN
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`peers.median(avg(sm_clock, 5m))`, `gpus.count(ofu < 5%)`: a function over a group's GPUs.

    `operand` is judged for each GPU; it is `Boolean` where the function takes conditions. `q` as in
    `Over`.
    """

    relation: Relation
    function: str
    operand: Node
    q: float | None = None
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class Scalar:
    """`abs(x)`: a function of one number."""

    function: str
    operand: Numeric
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class Negative:
    """`-x`."""

    operand: Numeric
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`x + y` and its kin. A division by zero has no value."""

    sign: Sign
    left: Numeric
    right: Numeric
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class Compare:
    """`x < y`; unknown when a side has no value."""

    comparator: Comparator
    left: Numeric
    right: Numeric
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class FlagCondition:
    """`flag(TORCH_DISTRIBUTED_DEBUG)`: the GPU metric `flag:NAME` is fresh and not zero."""

    name: str
    span: Span = field(default=Span(), compare=False)

    @property
    def metric(self) -> str:
        return f"flag:{self.name}"


@dataclass(frozen=True, slots=True)
class Not:
    operand: Boolean
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """Two or more operands, in the order of the text."""

    operands: tuple[Boolean, ...]
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more operands, in the order of the text."""

    operands: tuple[Boolean, ...]
    span: Span = field(default=Span(), compare=False)


Numeric = Number | Latest | Over | Aggregate | Scalar | Negative | Arithmetic
Boolean = Compare | FlagCondition | Not | And | Or
Node = Numeric | Boolean


@dataclass(frozen=True, slots=True)
class ComparisonNode:
    """One comparison or flag that a verdict rests on.

    `window_s`: the longest window in it, 0 for last values. `rests_on`: the windows and groups that
    have one value for the entity itself.
    """

    node: Compare | FlagCondition
    window_s: float
    rests_on: tuple[Over | Aggregate, ...]


@dataclass(frozen=True)
class Expression:
    """A checked condition: its text, the kind of entity that it judges, and the tree.

    The walks over the tree are those of every round, so their results are kept.
    """

    text: str = field(compare=False)
    each: EntityKind
    root: Node

    @cached_property
    def nodes(self) -> tuple[tuple[Node, EntityKind], ...]:
        """All nodes, parents first, each with the kind of entity that it is about."""
        return tuple(nodes_of(self.root, self.each))

    @cached_property
    def windows(self) -> tuple[tuple[EntityKind, Over], ...]:
        """Every window, with the kind of entity whose metric it is over."""
        windows = ((kind, node) for node, kind in self.nodes if isinstance(node, Over))
        return tuple((owner(kind, node.scope), node) for kind, node in windows)

    @cached_property
    def comparisons(self) -> tuple[ComparisonNode, ...]:
        """What the verdict rests on, in the order of the text."""
        return tuple(_comparison(leaf) for leaf in comparisons(self.root))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.each, self.root))


@dataclass(frozen=True, slots=True)
class DataLimits:
    """How much data it takes to know.

    `min_coverage`: the share of a window's samples that must be there, in [0, 1]; `count` and
    `last` need none. `min_peers`: the fewest GPUs with a value, itself included, of `peers.*`.
    """

    min_coverage: float = 0.5
    min_peers: int = 4


# Starting values: half of a window, and a median of four GPUs.
DEFAULT_LIMITS = DataLimits()


def children(node: Node) -> tuple[Node, ...]:
    """The direct operands of a node, in the order of the text."""
    match node:
        case And() | Or():
            return node.operands
        case Compare() | Arithmetic():
            return (node.left, node.right)
        case Aggregate() | Scalar() | Negative() | Not():
            return (node.operand,)
        case Number() | Latest() | Over() | FlagCondition():
            return ()


def nodes_of(node: Node, each: EntityKind) -> Iterator[tuple[Node, EntityKind]]:
    """A node and all below it, parents first, each with the kind of entity that it is about.

    Inside a group that is a GPU. Without recursion.
    """
    stack = [(node, each)]
    while stack:
        current, kind = stack.pop()
        yield current, kind
        inside: EntityKind = "gpu" if isinstance(current, Aggregate) else kind
        stack.extend((child, inside) for child in reversed(children(current)))


def _comparison(leaf: Compare | FlagCondition) -> ComparisonNode:
    windows = (node.window_s for node in walk(leaf) if isinstance(node, Over))
    rests_on = tuple(node for node, _ in visible(leaf) if isinstance(node, Over | Aggregate))
    return ComparisonNode(leaf, max(windows, default=0.0), rests_on)


def visible(root: Node, depth: int = 0) -> Iterator[tuple[Node, int]]:
    """The nodes that have one value for the entity itself, and their depth: none in a group."""
    yield root, depth
    if not isinstance(root, Aggregate):
        for child in children(root):
            yield from visible(child, depth + 1)


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, parents first."""
    return (inside for inside, _ in nodes_of(node, "gpu"))


def owner(kind: EntityKind, scope: Scope) -> EntityKind:
    """The kind of entity whose metric a scope means, in a condition that is judged for `kind`."""
    match scope:
        case Scope.OWN:
            return kind
        case Scope.JOB:
            return "job"
        case Scope.NODE:
            return "node"


def comparisons(node: Node) -> tuple[Compare | FlagCondition, ...]:
    """The comparisons and flags that a verdict rests on: reached through and, or, not alone."""
    if isinstance(node, Compare | FlagCondition):
        return (node,)
    if isinstance(node, And | Or | Not):
        return tuple(leaf for child in children(node) for leaf in comparisons(child))
    return ()
