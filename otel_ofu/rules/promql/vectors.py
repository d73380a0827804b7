"""Vectors in PromQL and operators over them: a text, and the labels that identify its samples.

A number is a plain float, or None where it can have no value: constants are computed here, and
never sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from otel_ofu.model import Entity, EntityKind
from otel_ofu.model.labels import ID_ATTRIBUTES, label_name
from otel_ofu.rules.algebra import compute
from otel_ofu.rules.functions import ScalarFunction
from otel_ofu.rules.language.syntax import DEFAULT_LIMITS, DataLimits, Sign

ENTITY_LABELS: dict[EntityKind, Labels] = {
    "gpu": ("hw_id", "ofu_job_id", "ofu_gpu_sku", "host_name"),
    "job": ("ofu_job_id",),
    "node": ("host_name",),
}
PEER_LABELS: Labels = ("ofu_job_id", "ofu_gpu_sku")


@dataclass(frozen=True, slots=True)
class CompilerSettings:
    """How the metrics are sampled, and how much of a window or a group a value needs.

    `step_s`: seconds between two samples, 1 ms at least. `closed_windows`: the server counts a
    sample at the very start of a window as in it (Prometheus before 3.0 and what was built on it);
    windows are then written 1 ms shorter, which every server reads alike.
    """

    step_s: float = 10.0
    limits: DataLimits = DEFAULT_LIMITS
    closed_windows: bool = False


Key = tuple[str, ...]

_ATTRIBUTES = {label_name(name): name for name in (*ID_ATTRIBUTES.values(), "ofu.gpu.sku")}


def key_of(kind: EntityKind, labels: Mapping[str, str]) -> Key:
    """The values of the labels that identify the entities of a kind; empty for none."""
    return tuple(labels.get(label, "") for label in ENTITY_LABELS[kind])


def entity_of(kind: EntityKind, key: Key) -> Entity:
    """The entity as derive names it: a GPU under a job is another entity than without."""
    attributes = {
        _ATTRIBUTES[label]: value
        for label, value in zip(ENTITY_LABELS[kind], key, strict=True)
        if value
    }
    if kind == "gpu" and attributes.get("ofu.job.id"):
        entity_id = f"{attributes.get('hw.id', '')}/{attributes['ofu.job.id']}"
    else:
        entity_id = key[0]
    return Entity(kind, entity_id, attributes)


Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Vector:
    """An instant vector with at most one sample for each set of values of `labels`.

    `atom`: the text can stand beside an operator without brackets.
    """

    text: str
    labels: Labels
    atom: bool = True

    @property
    def inside(self) -> str:
        """The text as an operand."""
        return self.text if self.atom else f"({self.text})"


Value = Vector | float | None


def number(value: float) -> str:
    """`0.15`, `600`, `-1`: as Go and Python both read it back, to the last bit."""
    return repr(float(value)).removesuffix(".0")


def duration(seconds: float) -> str:
    """`10m`, `9m59s999ms`: weeks and days are avoided, as some backends read them differently."""
    left, text = round(seconds * 1000), ""
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)):
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def quoted(text: str) -> str:
    """A string literal in double quotes."""
    return '"' + text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") + '"'


def by(labels: Labels) -> str:
    return f"by ({', '.join(labels)})"


def aggregate(function: str, labels: Labels, inner: str) -> Vector:
    """`avg by (ofu_job_id) (…)`."""
    return Vector(f"{function} {by(labels)} ({inner})", labels)


def infix(operator: str, left: Vector | float, right: Vector | float) -> Vector:
    """An operator between two vectors, or a vector and a number.

    Both have the same labels, or those of one are all among those of the other: then the one is
    matched to many. `operator` may end in ` bool`.
    """
    if not isinstance(left, Vector) or not isinstance(right, Vector):
        return _with_number(operator, left, right)
    if set(left.labels) == set(right.labels):
        return Vector(f"{left.inside} {operator} {right.inside}", left.labels, atom=False)
    if set(left.labels) > set(right.labels):
        match, labels = f"on ({', '.join(right.labels)}) group_left ()", left.labels
    else:
        match, labels = f"on ({', '.join(left.labels)}) group_right ()", right.labels
    return Vector(f"{left.inside} {operator} {match} {right.inside}", labels, atom=False)


def joinable(left: Vector, right: Vector) -> bool:
    """Whether the labels of one are all among those of the other."""
    ours, theirs = set(left.labels), set(right.labels)
    return ours <= theirs or theirs <= ours


def both(operands: Sequence[Vector]) -> Vector:
    """Those that are in all of the vectors, with the values of the first."""
    return _chain(" and ", operands)


def any_of(operands: Sequence[Vector]) -> Vector:
    """Those that are in one of the vectors, with the value of the first that has it."""
    return _chain(" or ", operands)


def union(operands: Iterable[Vector | None]) -> Vector | None:
    """Those that are in one of the vectors; None stands for no entity ever."""
    there = [operand for operand in operands if operand is not None]
    return any_of(there) if there else None


def intersection(operands: Iterable[Vector | None]) -> Vector | None:
    """Those that are in all of the vectors; None stands for no entity ever."""
    given = list(operands)
    there = [operand for operand in given if operand is not None]
    return both(there) if len(there) == len(given) else None


def _chain(operator: str, operands: Sequence[Vector]) -> Vector:
    if len(operands) == 1:
        return operands[0]
    text = operator.join(operand.inside for operand in operands)
    return Vector(text, operands[0].labels, atom=False)


def _with_number(operator: str, left: Vector | float, right: Vector | float) -> Vector:
    if isinstance(left, Vector) and not isinstance(right, Vector):
        return Vector(f"{left.inside} {operator} {number(right)}", left.labels, atom=False)
    if isinstance(right, Vector) and not isinstance(left, Vector):
        return Vector(f"{number(left)} {operator} {right.inside}", right.labels, atom=False)
    raise TypeError(f"no vector beside {operator}: constants are computed before")


def scalar(function: ScalarFunction, value: Value) -> Value:
    """None where the result has no value: the operand has none, or it is not finite."""
    if isinstance(value, Vector):
        return Vector(function.promql.format(x=value.text), value.labels)
    return None if value is None else _finite(float(function.compute(value)))


def negative(value: Value) -> Value:
    if isinstance(value, Vector):
        return Vector(f"-{value.inside}", value.labels, atom=False)
    return None if value is None else -value


def arithmetic(sign: Sign, left: Value, right: Value) -> Value:
    """None where the result has no value: an operand has none, or the divisor is zero."""
    if left is None or right is None or (sign is Sign.DIVIDE and right == 0.0):
        return None
    if isinstance(left, Vector) or isinstance(right, Vector):
        if sign is Sign.DIVIDE and isinstance(right, Vector):
            right = infix("!=", right, 0.0)
        return infix(sign.value, left, right)
    value = compute(sign, left, right)
    return None if isinstance(value, np.ndarray) else _finite(value)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
