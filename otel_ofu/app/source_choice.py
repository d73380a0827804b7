"""Which source reads which GPU: the best that gives its OFU, and never two at a time.

Enters: what each open source gave in a round. Leaves: the source of each GPU, and what changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from otel_ofu.app.source_reader import ReadResult
from otel_ofu.model import Device, GapReason, Reading

PATIENCE = 3
"""Rounds without OFU after which a source of lower rank takes over a GPU, where it is not sure that
it stays so. Starting value."""
LONG_PATIENCE = 100
"""The same where its values are to come. Starting value: an exporter that refreshes every 30 s, as
dcgm-exporter does, is read 60 times in between at an interval of 500 ms."""
_LASTING = (GapReason.NOT_SUPPORTED, GapReason.NOT_PERMITTED)
_TENSOR = "tensor_active"

Results = Mapping[str, ReadResult]
"""What the open sources gave, by name."""


def whole_gpu(device: Device) -> str:
    """A GPU and its MIG instances are read by one source."""
    return device.parent or device.uuid


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A GPU that another source reads from now on; `before` is empty at first."""

    gpu: str
    source: str
    before: str
    why: str


@dataclass(slots=True)
class _Choice:
    """`without_ofu` and `waiting`: rounds in a row; `lasting`: its source cannot give it.

    `is_local`: a source of this machine's own GPUs knows it.
    """

    source: str
    is_local: bool = False
    without_ofu: int = 0
    waiting: int = 0
    lasting: bool = False

    @property
    def lacks_ofu(self) -> bool:
        return self.lasting or self.without_ofu >= PATIENCE or self.waiting >= LONG_PATIENCE

    def follow(self, own: _Offer) -> None:
        """One round of its source."""
        self.lasting = own.lacks_ofu
        if own.level == _OFU:
            self.without_ofu = self.waiting = 0
        elif own.waits:
            self.waiting += 1
        else:
            self.without_ofu += 1


_GAPS, _VALUES, _OFU = range(3)


@dataclass(slots=True)
class _Offer:
    """What one source gives of one GPU in one round: nothing but gaps, values, those of OFU too."""

    level: int = _GAPS
    lasting: bool = False
    waits: bool = False
    why: str = "it gives nothing"

    @property
    def lacks_ofu(self) -> bool:
        return self.lasting and self.level < _OFU

    def add(self, reading: Reading) -> None:
        gap = reading.gaps.get(_TENSOR)
        if _TENSOR in reading.values:
            self.level = _OFU
            return
        if reading.values:
            self.level = max(self.level, _VALUES)
        if gap is not None:
            self.lasting = gap.reason in _LASTING
            self.waits = gap.reason is GapReason.NOT_READY
            self.why = gap.detail or gap.reason.replace("_", " ")


@dataclass(slots=True)
class SourceChoice:
    """The source of each GPU.

    `order`: the sources, best first. `local`: those that speak of this machine's own GPUs; while
    one of them knows any, the others bring no GPU that these do not know: a page may call a GPU of
    this machine by another name.
    """

    order: Sequence[str]
    local: Sequence[str] = ()
    _chosen: dict[str, _Choice] = field(default_factory=dict)

    def in_use(self) -> set[str]:
        """The sources that read a GPU."""
        return {choice.source for choice in self._chosen.values()}

    def source_of(self, device: Device) -> str:
        """Empty for a device that nobody is to read."""
        choice = self._chosen.get(whole_gpu(device))
        return choice.source if choice else ""

    def could_improve(self, name: str) -> bool:
        """Whether a GPU is without OFU, or is read by a source that comes after this one."""
        return any(
            choice.source != name and (choice.lacks_ofu or self._is_better(name, choice.source))
            for choice in self._chosen.values()
        )

    def update(self, results: Results) -> list[SourceChange]:
        """Call it once a round."""
        offers = _offers(self.order, results)
        self._forget(offers, results)
        changes = [self._choose(gpu, offers[gpu]) for gpu in offers]
        self._drop_strangers()
        return [each for each in changes if each is not None and each.gpu in self._chosen]

    def _forget(self, offers: Mapping[str, Mapping[str, _Offer]], results: Results) -> None:
        """GPUs that their source does not list any more, although it answers."""
        for gpu, choice in list(self._chosen.items()):
            if choice.source in offers.get(gpu, {}):
                continue
            result = results.get(choice.source)
            if result is None or not result.failure:
                del self._chosen[gpu]
            elif gpu not in offers:
                choice.without_ofu += 1

    def _choose(self, gpu: str, offers: Mapping[str, _Offer]) -> SourceChange | None:
        target = max(offers, key=lambda name: (offers[name].level, -self.order.index(name)))
        choice = self._chosen.get(gpu)
        if choice is None:
            is_local = self._is_local(offers)
            self._chosen[gpu] = _Choice(target, is_local, lasting=offers[target].lacks_ofu)
            return SourceChange(gpu, target, "", "")
        own = offers.get(choice.source, _Offer())
        choice.follow(own)
        choice.is_local = choice.is_local or self._is_local(offers)
        if target == choice.source or not self._may_move(choice, target, own, offers[target]):
            return None
        self._chosen[gpu] = _Choice(target, choice.is_local, lasting=offers[target].lacks_ofu)
        return SourceChange(gpu, target, choice.source, "" if own.level == _OFU else own.why)

    def _is_local(self, offers: Mapping[str, _Offer]) -> bool:
        return any(name in self.local for name in offers)

    def _drop_strangers(self) -> None:
        """GPUs of a page that a driver came to list by other names."""
        if any(choice.is_local for choice in self._chosen.values()):
            self._chosen = {gpu: choice for gpu, choice in self._chosen.items() if choice.is_local}

    def _may_move(self, choice: _Choice, target: str, own: _Offer, offer: _Offer) -> bool:
        if offer.level == _OFU and self._is_better(target, choice.source):
            return True
        return offer.level > own.level and choice.lacks_ofu

    def _is_better(self, name: str, other: str) -> bool:
        return self.order.index(name) < self.order.index(other)


def _offers(order: Sequence[str], results: Results) -> dict[str, dict[str, _Offer]]:
    """GPU -> source -> what it gives, in the order of the sources."""
    found: dict[str, dict[str, _Offer]] = {}
    for name, reading in _readings(order, results):
        offers = found.setdefault(whole_gpu(reading.device), {})
        offers.setdefault(name, _Offer()).add(reading)
    return found


def _readings(order: Sequence[str], results: Results) -> Iterator[tuple[str, Reading]]:
    for name in order:
        result = results.get(name)
        for reading in result.readings if result else ():
            yield name, reading
