"""A `FlagScanner` over a tree, with what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from otel_ofu.evidence.flags import FlagCatalogue, FlagScan, FlagScanner, load_flags
from otel_ofu.evidence.flags.catalogue import KEY
from otel_ofu.evidence.flags.scan import DeviceFlags
from otel_ofu.model.clock import VirtualClock
from tests.evidence.tree import Holder, Tree, gpu
from tests.waiting import HANGS_S

BOOK = load_flags()
NOW_S = 1_800_000_000.0


@dataclass
class Rig:
    tree: Tree
    book: FlagCatalogue = BOOK
    holders: list[Holder] = field(default_factory=lambda: [Holder(gpu(0), 7)])
    architectures: dict[str, str] = field(default_factory=dict)
    now_s: float = NOW_S - 30.0

    def __post_init__(self) -> None:
        self.scanner = FlagScanner(
            self.book,
            self.tree.proc,
            VirtualClock(),
            processes=lambda: tuple(self.holders),
            architectures=lambda: dict(self.architectures),
            budget_s=HANGS_S,
        )

    def scan(self) -> FlagScan:
        """A fresh scan."""
        self.now_s += 30.0
        return self.scanner.scan(self.now_s)

    def seen(self) -> set[str]:
        """The flags on some device, of a fresh scan."""
        return seen_in(self.scan())

    def device(self, number: int = 0) -> DeviceFlags:
        """What a fresh scan says of one device."""
        return self.scan().devices[gpu(number)]


def seen_in(scan: FlagScan) -> set[str]:
    """The flags on some device."""
    values = [(key, on) for flags in scan.devices.values() for key, on in flags.values.items()]
    return {key.removeprefix(KEY) for key, on in values if on}
