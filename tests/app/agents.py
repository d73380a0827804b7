"""Three agents of one job with two GPUs each, OFU 0.6, 0.4 and 0.1: the job has 0.3667."""

from __future__ import annotations

from pathlib import Path

from otel_ofu.catalog.registry import load_registry
from otel_ofu.derive.gpu_time import GpuTimeMeter
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.model import Attribute, Entity, Observation, Window
from otel_ofu.model.clock import VirtualClock
from otel_ofu.outbox.batch import Body

STEP_S = 10.0
OFU = {"a": 0.6, "b": 0.4, "c": 0.1}
JOB_OFU = (0.6 + 0.4 + 0.1) / 3
GPUS = 2


class Agent:
    """A node with two GPUs; `outbox` is what no gateway took yet."""

    def __init__(self, name: str, clock: VirtualClock, folder: Path | None = None) -> None:
        self.name = name
        self.job = "1"
        self.outbox: list[Body] = []
        self._clock = clock
        self._meter = GpuTimeMeter(folder / "gpu-time.sqlite" if folder else None)
        common = {"service.name": "otel-ofu", "host.name": name}
        self._encoder = MetricEncoder(load_registry(), common, EncoderOptions(clock.now_s()))

    def round(self) -> None:
        now_s = self._clock.now_s()
        seen = [self._seen(f"GPU-{self.name}-{n}", now_s) for n in range(GPUS)]
        counted = self._meter.count(seen, now_s)
        self.outbox += self._encoder.encode(counted.live, counted.kept)

    def end(self) -> None:
        """It stops, and all of its series end."""
        self.outbox += self._encoder.encode(())
        self._meter.close()

    def _seen(self, gpu: str, now_s: float) -> Observation:
        attributes: dict[str, Attribute] = {"hw.id": gpu, "host.name": self.name}
        if self.job:
            attributes["ofu.job.id"] = self.job
        entity = Entity("gpu", f"{gpu}/{self.job}" if self.job else gpu, attributes)
        values = {"ofu": OFU[self.name], "gpu_util": 1.0, "flop_limit": 1e15}
        return Observation(entity, Window(now_s - STEP_S, now_s), values)
