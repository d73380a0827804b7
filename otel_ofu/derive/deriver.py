"""Derives one observation from one reading, and holds the few things that windows share.

Enters: a `Reading`, that of its parent for a MIG instance, the attributes of its owner.
Leaves: an `Observation` with everything that was measured and everything that follows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from otel_ofu.catalog.registry import Registry, load_registry
from otel_ofu.catalog.skus import Sku
from otel_ofu.derive import formulas
from otel_ofu.derive.cleaning import MeasuredValues, ReadingCleaner
from otel_ofu.derive.counters import CounterStart, CounterStarts, CycleMeter, CycleShare
from otel_ofu.derive.efficiency import (
    FIXED_CLOCK,
    ReferenceClock,
    applicability,
    clock_share,
    resolve,
    utilization,
)
from otel_ofu.derive.identity import device_attributes, entity_id, states
from otel_ofu.derive.ladder import ladder
from otel_ofu.derive.plausibility import PlausibilityChecker
from otel_ofu.derive.precision import PrecisionDetector, PrecisionDomain, declared
from otel_ofu.derive.settings import DeriverSettings
from otel_ofu.derive.uncertainty import EndClocks, method_of, uncertainty
from otel_ofu.model import Attribute, Device, Entity, Gap, GapReason, Observation, Reading, Window
from otel_ofu.model.owner import agreed


@dataclass(slots=True)
class FlopTotals:
    """Integrals in FLOP since `start_s` (Unix seconds), without what a window repeats."""

    start_s: float
    end_s: float
    count: float = 0.0
    capacity: float = 0.0

    def add(self, rate: float, limit: float, window: Window) -> None:
        """Counts a window of FLOP/s; time that was counted before is not counted again."""
        if window.end_s < self.end_s - window.length_s:  # the wall clock was set back
            self.start_s = min(self.start_s, window.start_s)
            self.end_s = window.start_s
        fresh_s = window.end_s - max(window.start_s, self.end_s)
        if fresh_s > 0:
            self.count += rate * fresh_s
            self.capacity += limit * fresh_s
            self.end_s = window.end_s


FLOP_TOTALS = ("flop_count", "flop_capacity")


@dataclass(slots=True)
class _Running:
    """What the windows of one entity share. `first`: the first of them."""

    first: Window
    detector: PrecisionDetector = field(default_factory=PrecisionDetector)
    meter: CycleMeter = field(default_factory=CycleMeter)
    source: str = ""
    ends: EndClocks = field(default_factory=EndClocks)
    series: tuple[str, float] | None = None
    totals: FlopTotals | None = None

    def follow(self, source: str) -> None:
        """Another source counts cycles from another beginning, and perhaps others."""
        if source != self.source:
            self.source, self.meter = source, CycleMeter()


@dataclass(frozen=True, slots=True)
class _KnownDevice:
    """What stays the same while a device does: its model and attributes."""

    device: Device
    model: str
    source: str
    sku: Sku | None
    attributes: Mapping[str, Attribute]
    plausibility: PlausibilityChecker = field(default_factory=PlausibilityChecker)


def _known_starts(
    began: Mapping[str, CounterStart], running: _Running, values: Mapping[str, float]
) -> dict[str, float]:
    return {
        key: max(start.start_s, running.first.start_s)
        for key, start in began.items()
        if start.seen_s >= running.first.end_s and key in values
    }


class EventDeriver:
    """Derives observations of what happens between two windows, with nothing else in them."""

    def __init__(self, derive: Callable[[Reading, Mapping[str, Attribute]], Observation]) -> None:
        self._derive = derive

    def derive(
        self,
        reading: Reading,
        parent: Reading | None = None,  # noqa: ARG002 - a GPU's events are its own
        owner: Mapping[str, Attribute] | None = None,
    ) -> Observation:
        return self._derive(reading, owner or {})


class Deriver:
    """Owned by one thread. Restart loses the running totals: they begin again with a new start."""

    def __init__(self, settings: DeriverSettings, registry: Registry | None = None) -> None:
        self._settings = settings
        known = registry or load_registry()
        self._cleaner = ReadingCleaner(known)
        self._beginnings = CounterStarts(known)
        self._running: dict[str, _Running] = {}
        self._known: dict[str, _KnownDevice] = {}

    def derive(
        self,
        reading: Reading,
        parent: Reading | None = None,
        owner: Mapping[str, Attribute] | None = None,
    ) -> Observation:
        """The observation of one window.

        `parent`: the reading of the GPU that a MIG instance is part of, of the same round.
        `owner`: attributes from the job stage; they outrank the owners that the source
        gives, of whom counts what they agree on.
        """
        owned: dict[str, Attribute] = {**agreed(reading.owners), **(owner or {})}
        known = self._device(reading, parent)
        id_ = entity_id(reading.device, owned)
        running = self._running.setdefault(id_, _Running(reading.window))
        running.follow(reading.source)
        result = self._cleaner.clean(reading, parent)
        known.plausibility.check(result, reading.window)
        domain = self._domain(running, owned, result, known.sku)
        reference = self._reference(reading, known.sku, domain, result)
        _Window(reading, known.sku, domain, reference, running).fill(result)
        result.values.update(states(reading, domain, reference))
        attributes = {**owned, **known.attributes}
        if domain.source == "declared":
            attributes["ofu.precision"] = domain.precision
        return Observation(
            entity=Entity("gpu", id_, attributes),
            window=reading.window,
            values=result.values,
            gaps=result.gaps,
            starts_s=self._starts_s(reading, running, result),
            point_attributes={"ofu.precision": domain.precision},
        )

    @property
    def events(self) -> EventDeriver:
        """Derives what happens between two windows."""
        return EventDeriver(self._event)

    def _event(self, reading: Reading, owner: Mapping[str, Attribute]) -> Observation:
        owned: dict[str, Attribute] = {**agreed(reading.owners), **owner}
        known, id_ = self._device(reading, None), entity_id(reading.device, owned)
        running = self._running.setdefault(id_, _Running(reading.window))
        precision = owned.get("ofu.precision") or self._settings.precision
        stated: dict[str, Attribute] = {"ofu.precision": str(precision)} if precision else {}
        values = dict(reading.values)
        began = self._beginnings.observe_events(reading)
        return Observation(
            entity=Entity("gpu", id_, {**owned, **known.attributes, **stated}),
            window=reading.window,
            values=values,
            starts_s=_known_starts(began, running, values),
        )

    def retain(self, entity_ids: Collection[str]) -> None:
        """Forgets what it holds of all other entities; call it with those of the last round."""
        kept = set(entity_ids)
        self._running = {id_: r for id_, r in self._running.items() if id_ in kept}
        devices = {id_.partition("/")[0] for id_ in kept} | kept
        self._known = {uuid: known for uuid, known in self._known.items() if uuid in devices}
        self._beginnings.retain(devices)

    def _starts_s(
        self, reading: Reading, running: _Running, result: MeasuredValues
    ) -> dict[str, float]:
        """When the counters began, as far as it is known.

        An event that is older than the entity, one of the job before, is not its own.
        """
        began = self._beginnings.observe(reading, result.values)
        starts_s = _known_starts(began, running, result.values)
        if running.totals is not None:
            starts_s |= dict.fromkeys(FLOP_TOTALS, running.totals.start_s)
        return {key: start_s for key, start_s in starts_s.items() if key in result.values}

    def _device(self, reading: Reading, parent: Reading | None) -> _KnownDevice:
        """As the source that read it first describes it; another one may know less or more."""
        device, known = reading.device, self._known.get(reading.device.uuid)
        if known is not None and known.source != reading.source and known.model:
            return known
        model = device.model or (parent.device.model if parent else "")
        if known is None or known.device != device or known.model != model:
            sku = self._settings.skus.match(model)
            attributes = device_attributes(device, sku, self._settings)
            known = _KnownDevice(device, model, reading.source, sku, attributes)
            self._known[device.uuid] = known
        return known

    def _reference(
        self, reading: Reading, sku: Sku | None, domain: PrecisionDomain, result: MeasuredValues
    ) -> ReferenceClock | Gap:
        if reading.quality == FIXED_CLOCK:
            return Gap(GapReason.NOT_SUPPORTED, "the clock is fixed")
        return resolve(self._settings.reference_clock, sku, domain.precision, result)

    def _domain(
        self,
        running: _Running,
        owner: Mapping[str, Attribute],
        result: MeasuredValues,
        sku: Sku | None,
    ) -> PrecisionDomain:
        precision = owner.get("ofu.precision") or self._settings.precision
        if precision:
            return declared(str(precision))
        return running.detector.observe(result.values, sku.default_precision if sku else "unknown")


@dataclass(frozen=True, slots=True)
class _Window:
    """One window under derivation."""

    reading: Reading
    sku: Sku | None
    domain: PrecisionDomain
    reference: ReferenceClock | Gap
    running: _Running

    def fill(self, result: MeasuredValues) -> None:
        """Adds every derived key to the measured ones, as a value or as a gap."""
        quality, reference = self.reading.quality, self.reference
        self.running.ends.observe(result)
        cycles = self._cycles(result)
        ofu = utilization(result, quality, reference, cycles)
        factor = clock_share(result, reference, cycles)
        limit = self._limit()
        derived = {
            "ofu": ofu,
            "ofu_saturated": ofu if isinstance(ofu, Gap) else float(ofu > 1),
            "ofu_applicable": applicability(result),
            "clock_factor": factor,
            "reference_clock": reference if isinstance(reference, Gap) else reference.clock_hz,
            "flop_limit": limit,
            "flop_limit_actual": _product(limit, factor),
            "flop_rate": _product(limit, ofu),
        }
        derived |= self._totals(derived["flop_rate"], limit)
        for key, value in derived.items():
            if isinstance(value, Gap):
                result.gaps[key] = value
            else:
                result.values[key] = value
        if isinstance(ofu, Gap):
            result.values[f"ofu_gap:{ofu.reason}"] = 1.0
            result.gaps["ofu_uncertainty"] = ofu
        else:
            self._explain(result, ofu, cycles)

    def _explain(self, result: MeasuredValues, ofu: float, cycles: CycleShare | None) -> None:
        """How the OFU was got, how far it may be off, and where the rest of the window went."""
        method = method_of(result, self.reading.quality, cycles)
        clock_hz = 0.0 if isinstance(self.reference, Gap) else self.reference.clock_hz
        clocks = clock_hz, self.running.ends
        result.values[f"ofu_method:{method}"] = 1.0
        result.values["ofu_uncertainty"] = uncertainty(method, result, ofu, clocks, cycles)
        mean_hz = result.values.get("sm_clock_mean") if cycles is None else cycles.clock_hz
        result.values.update(ladder(result, self.reading.quality, ofu, mean_hz))

    def _cycles(self, result: MeasuredValues) -> CycleShare | None:
        """The counters are per GPU: those of a MIG instance would be its parent's."""
        if self.reading.device.parent:
            return None
        sms = self.sku.sms if self.sku else None
        window = self.reading.window_of("mma_cycles_active")
        return self.running.meter.observe(result.values, window, sms)

    def _limit(self) -> float | Gap:
        """FLOP/s at the reference clock, of the part of the GPU that the entity owns."""
        if self.sku is None:
            return Gap(GapReason.NOT_SUPPORTED, "unknown model: no peak")
        per_clock = self.sku.flops_per_clock(self.domain.precision)
        if per_clock is None:
            why = f"{self.sku.id} has no dense peak for {self.domain.precision}"
            return Gap(GapReason.NOT_SUPPORTED, why)
        share = self.reading.device.sm_share
        if not 0 < share <= 1:
            return Gap(GapReason.OUT_OF_RANGE, f"SM share {share:g}")
        if isinstance(self.reference, Gap):
            return self.reference
        return formulas.flop_limit(per_clock, share, self.reference.clock_hz)

    def _totals(self, rate: float | Gap, limit: float | Gap) -> dict[str, float | Gap]:
        if isinstance(rate, Gap) or isinstance(limit, Gap):
            gap = rate if isinstance(rate, Gap) else limit
            return dict.fromkeys(FLOP_TOTALS, gap)
        window = self.reading.window
        if window.length_s <= 0:
            return dict.fromkeys(FLOP_TOTALS, Gap(GapReason.NOT_READY, "the window has no length"))
        running, series = self.running, self._series()
        if running.totals is None or running.series != series:
            running.totals = FlopTotals(window.start_s, window.start_s)
            running.series = series
        running.totals.add(rate, limit, window)
        return {"flop_count": running.totals.count, "flop_capacity": running.totals.capacity}

    def _series(self) -> tuple[str, float]:
        """What makes another resource of the same entity, and so begins other totals."""
        clock_hz = 0.0 if isinstance(self.reference, Gap) else self.reference.clock_hz
        return self.domain.precision, clock_hz


def _product(limit: float | Gap, share: float | Gap) -> float | Gap:
    if isinstance(limit, Gap):
        return limit
    return share if isinstance(share, Gap) else formulas.flop_rate(share, limit)
