"""skus.yaml as types: what one GPU model can do per clock, and the clock it is judged by.

Enters: the YAML file of the package, and optionally what a user wrote. Leaves: `Skus`, a read-only
look-up by the device name that a driver reports.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args

import msgspec

from otel_ofu.catalog.registry import catalog_file
from otel_ofu.model.validation import in_plain_words

Precision = Literal["fp64", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"]
PRECISIONS: tuple[str, ...] = get_args(Precision)

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
_Figure = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
_ClockMhz = Annotated[float, msgspec.Meta(ge=1, le=10_000)]
_Names = Annotated[list[_Text], msgspec.Meta(min_length=1)]

# What may stand at the front of any model name and distinguishes no two models.
_MAKER = frozenset({"nvidia", "tesla", "geforce", "amd", "instinct", "huawei", "ascend"})
_MEMORY = re.compile(r"(\d+)(?:g|gb|gib)")
_WORD = re.compile(r"[a-z0-9.+]+")


class Sku(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU model; the header of skus.yaml explains the fields."""

    id: str
    title: _Text
    architecture: _Text
    names: _Names
    sms: _Count
    flops_per_clock_per_sm: dict[Precision, _Figure]
    reference_clock_mhz: dict[Precision | Literal["default"], _ClockMhz]
    max_sm_clock_mhz: _ClockMhz | None = None
    peak_tflops: dict[Precision, _Figure] = {}
    peak_exceptions: dict[Precision, _Text] = {}
    memory_gb: list[_Count] = []
    unverified: dict[str, _Text] = {}
    source: str = ""

    @property
    def default_precision(self) -> Precision | Literal["unknown"]:
        """What is assumed when nobody declares a precision: bf16, or fp16 on parts without it."""
        flops = self.flops_per_clock_per_sm
        return "bf16" if "bf16" in flops else "fp16" if "fp16" in flops else "unknown"

    def reference_clock_hz(self, precision: str = "default") -> float:
        """The clock in Hz that the dense tensor peak of this precision is published at."""
        clocks: dict[Any, float] = self.reference_clock_mhz
        return clocks.get(precision, clocks["default"]) * 1e6

    def flops_per_clock(self, precision: str) -> float | None:
        """Dense tensor FLOPs of the whole device in one clock; None without such tensor cores."""
        per_sm: dict[Any, float] = self.flops_per_clock_per_sm
        return self.sms * per_sm[precision] if precision in per_sm else None

    def peak_flops(self, precision: str) -> float | None:
        """Dense peak in FLOP/s: SMs x FLOPs per clock and SM x reference clock, or None.

        Source: NVIDIA H100 Tensor Core GPU Architecture, table 3 (peaks at boost clock).
        """
        per_clock = self.flops_per_clock(precision)
        return None if per_clock is None else per_clock * self.reference_clock_hz(precision)


Steps = tuple[str | int, ...]


class InvalidSkus(ValueError):  # noqa: N818 - names what is wrong
    """What is wrong in a mapping of SKUs: (steps from its root, message in plain words)."""

    def __init__(self, faults: Iterable[tuple[Steps, str]]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(f"{_dotted(steps)}: {text}" for steps, text in self.faults))


class Skus:
    """Look-up of GPU models; never changes after it was built."""

    def __init__(self, skus: Mapping[str, Sku], names: Mapping[frozenset[str], str]) -> None:
        self.by_id = skus
        self._names = names

    def match(self, device_name: str) -> Sku | None:
        """The model that a driver's device name stands for, or None: never the nearest one.

        All words of the name must be those of the model. Case, order, separators, the maker and the
        memory size do not matter, and a MIG device name stands for its parent.
        """
        words = _words(device_name)
        exact = self._names.get(words)
        if exact is not None:
            return self.by_id[exact]
        sizes = {word for word in words if _MEMORY.fullmatch(word)}
        sku = self.by_id.get(self._names.get(words - sizes, ""))
        return sku if sku is not None and _has_size(sku, sizes) else None

    def extended(self, raw: object) -> Skus:
        """These and the user's: `{skus: {id: {field: value}}}`; same id replaces field by field.

        Raises InvalidSkus with every fault found. A user's name wins over a built-in one.
        """
        faults, added = _parse(raw, self.by_id)
        names = _name_index(added, faults)
        if faults:
            raise InvalidSkus(faults)
        kept = {words: id_ for words, id_ in self._names.items() if id_ not in added}
        return Skus({**self.by_id, **added}, {**kept, **names})


@cache
def load_skus() -> Skus:
    """The models of this package; parsed once."""
    return Skus({}, {}).extended(catalog_file("skus.yaml"))


def _words(device_name: str) -> frozenset[str]:
    words = _WORD.findall(device_name.lower())
    if "mig" in words:
        words = words[: words.index("mig")]
    return frozenset(words) - _MAKER


def _has_size(sku: Sku, sizes: Iterable[str]) -> bool:
    found = (_MEMORY.fullmatch(size) for size in sizes)
    return not sku.memory_gb or all(int(m[1]) in sku.memory_gb for m in found if m)


_Faults = list[tuple[Steps, str]]
_FIELDS = {field.name: field for field in msgspec.structs.fields(Sku) if field.name != "id"}
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_ALLOWED = {
    "sms": "a whole number from 1 to 100000",
    "flops_per_clock_per_sm": f"precision: number above 0, precisions {', '.join(PRECISIONS)}",
    "reference_clock_mhz": "MHz from 1 to 10000 under `default` and, where another, a precision",
    "max_sm_clock_mhz": "MHz from 1 to 10000",
    "peak_tflops": f"precision: number above 0, precisions {', '.join(PRECISIONS)}",
    "peak_exceptions": "precision: text",
    "names": "a list of device names, at least one",
    "memory_gb": "a list of whole numbers above 0",
    "unverified": "field: text",
}


def _parse(raw: object, base: Mapping[str, Sku]) -> tuple[_Faults, dict[str, Sku]]:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("skus"), Mapping):
        return [((), "expected a mapping `skus:` of id to model")], {}
    faults: _Faults = [
        ((key,), f"unknown key {key!r}; allowed: skus") for key in raw if key != "skus"
    ]
    found: dict[str, Sku] = {}
    for id_, entry in raw["skus"].items():
        sku = _entry(id_, entry, base, faults)
        if sku is not None:
            found[sku.id] = sku
    return faults, found


def _entry(id_: object, entry: object, base: Mapping[str, Sku], faults: _Faults) -> Sku | None:
    steps = ("skus", str(id_))
    if not isinstance(id_, str) or not _ID.fullmatch(id_):
        faults.append((steps, f"invalid id {id_!r}; allowed: lower-case letters, digits, . _ -"))
        return None
    if not isinstance(entry, Mapping):
        faults.append((steps, f"expected a mapping; known fields: {', '.join(_FIELDS)}"))
        return None
    before = len(faults)
    values = msgspec.structs.asdict(base[id_]) if id_ in base else {"id": id_}
    values |= {key: _field(str(key), value, steps, faults) for key, value in entry.items()}
    for name, field in _FIELDS.items():
        if field.required and name not in values:
            faults.append((steps, f"{name!r} is missing; allowed: {_ALLOWED.get(name, 'text')}"))
    return Sku(**values) if len(faults) == before else None


def _field(name: str, value: object, steps: Steps, faults: _Faults) -> Any:  # noqa: ANN401 - by field
    field = _FIELDS.get(name)
    if field is None:
        faults.append(((*steps, name), f"unknown key {name!r}; allowed: {', '.join(_FIELDS)}"))
        return None
    try:
        converted = msgspec.convert(value, field.type)
    except msgspec.ValidationError as error:
        text = in_plain_words(error)
        faults.append(((*steps, name), f"{text}; allowed: {_ALLOWED.get(name, 'text')}"))
        return None
    if name == "reference_clock_mhz" and "default" not in converted:
        faults.append(((*steps, name), f"'default' is missing; allowed: {_ALLOWED[name]}"))
    return converted


def _name_index(skus: Mapping[str, Sku], faults: _Faults) -> dict[frozenset[str], str]:
    index: dict[frozenset[str], str] = {}
    for sku in skus.values():
        for position, name in enumerate(sku.names):
            steps: Steps = ("skus", sku.id, "names", position)
            words = _words(name)
            if not words:
                faults.append((steps, f"{name!r} names no model"))
            elif index.setdefault(words, sku.id) != sku.id:
                faults.append((steps, f"{name!r} is also a name of {index[words]!r}"))
    return index


def _dotted(steps: Steps) -> str:
    return "$" + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)
