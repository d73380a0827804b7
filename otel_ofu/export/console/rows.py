"""Observations -> what a person reads: one row a GPU, a dash where a value is absent, and why.

Enters: the observations of one round. Leaves: rows of text, and the reasons of what is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.model import Attribute, GapReason, Observation

DASH = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """`key` is the registry key; `show` writes its value in few characters."""

    title: str
    key: str
    show: Callable[[float], str]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _whole_percent(value: float) -> str:
    return f"{100 * value:.0f}%"


def _watts(value: float) -> str:
    return f"{value:.0f} W"


COLUMNS = (
    Column("OFU", "ofu", _percent),
    Column("tensor", "tensor_active", _percent),
    Column("clock", "clock_factor", lambda value: f"{value:.2f}"),
    Column("SM", "sm_active", _whole_percent),
    Column("DRAM", "dram_active", _whole_percent),
    Column("GPU util", "gpu_util", _whole_percent),
    Column("power", "power", _watts),
)


@dataclass(frozen=True, slots=True)
class GpuRow:
    """`cells` stand in the order of COLUMNS."""

    gpu: str
    model: str
    job: str
    cells: Sequence[str]


def rows(observations: Sequence[Observation]) -> tuple[list[GpuRow], list[str]]:
    """The rows, and one sentence for each distinct reason why something is absent."""
    gpus = [o for o in observations if o.entity.kind == "gpu"]
    return [_row(o) for o in gpus], _reasons(gpus)


def has_nothing_new(observations: Sequence[Observation]) -> bool:
    """Whether all cells are merely not due yet: the exporter refreshes less often than we read."""
    gaps = [o.gaps.get(column.key) for o in observations for column in COLUMNS]
    values = any(column.key in o.values for o in observations for column in COLUMNS)
    return not values and all(g is None or g.reason is GapReason.NOT_READY for g in gaps)


def _row(observation: Observation) -> GpuRow:
    attributes = observation.entity.attributes
    return GpuRow(
        gpu=_name(attributes),
        model=short_model(str(attributes.get("hw.model", ""))) or DASH,
        job=str(attributes.get("ofu.job.id", DASH)),
        cells=[
            column.show(observation.values[column.key])
            if column.key in observation.values
            else DASH
            for column in COLUMNS
        ],
    )


def _name(attributes: Mapping[str, Attribute]) -> str:
    index = attributes.get("ofu.gpu.index")
    uuid = str(attributes.get("hw.id", ""))
    if uuid.startswith("MIG-"):
        return f"{attributes.get('ofu.mig.profile') or 'MIG'} {uuid[4:12]}"
    return str(index) if index is not None else uuid[:12]


def short_model(model: str) -> str:
    """`NVIDIA H100 80GB HBM3` -> `H100 80GB HBM3`."""
    return model.removeprefix("NVIDIA ").removeprefix("Tesla ")[:24]


def _reasons(gpus: Sequence[Observation]) -> list[str]:
    """Absent cells of the table by reason: `OFU, tensor of 0, 1: not ready (first sample)`."""
    found: dict[tuple[str, GapReason, str], tuple[list[str], list[str]]] = {}
    for observation in gpus:
        gpu = _name(observation.entity.attributes)
        for column in COLUMNS:
            gap = observation.gaps.get(column.key)
            if gap is None or column.key in observation.values:
                continue
            titles, names = found.setdefault(("", gap.reason, gap.detail), ([], []))
            _add_once(titles, column.title)
            _add_once(names, gpu)
    return [
        _sentence(titles, names, len(gpus), reason, detail)
        for (_, reason, detail), (titles, names) in found.items()
    ]


def _add_once(texts: list[str], text: str) -> None:
    if text not in texts:
        texts.append(text)


def _sentence(
    titles: list[str], names: list[str], total: int, reason: GapReason, detail: str
) -> str:
    where = "" if len(names) == total else f" of GPU {', '.join(names)}"
    why = reason.value.replace("_", " ")
    return f"{', '.join(titles)}{where}: {why}" + (f" ({detail})" if detail else "")
