"""From batches to the store: columns, ends, what jobs say of themselves."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.export.metrics import EncoderOptions, MetricEncoder
from otel_ofu.export.request import unpack
from otel_ofu.mfu import built_in_names
from otel_ofu.model import Attribute, Entity, Observation, Window
from otel_ofu.model.clock import SystemClock, VirtualClock
from otel_ofu.receive.answers import GrpcCode, code_of
from otel_ofu.receive.buffer import END_AFTER_S, Buffer
from otel_ofu.receive.decode import Decoder
from otel_ofu.receive.decode_worker import DecodeOutcome, DecodeTask, DecodeWorker
from otel_ofu.receive.intake import Intake
from otel_ofu.store import FleetState, Store
from otel_ofu.store.series import Rows
from tests.receive.bodies import T0, body, gauge, gpu, point, seen, ticks, values
from tests.waiting import HANGS_S


class Gateway:
    """A decoder, a buffer and a store, on virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock(T0 + 30.0)
        self.store = Store(load_registry(), clock=self.clock)
        self.decoder = Decoder(load_registry(), built_in_names())
        self.fleet = FleetState.open(None)
        self.buffer = Buffer(self.store, self.fleet)

    def take(self, raw: bytes) -> Intake:
        now_s = self.clock.now_s()
        intake = self.decoder.decode(raw, now_s)
        self.buffer.add(intake, now_s)
        return intake

    def flush(self) -> None:
        self.buffer.flush(self.clock.now_s())

    def ids(self) -> set[str]:
        return {entity.id for entity in self.store.entities("gpu")}


def rows(store: Store, key: str) -> Rows:
    with store.reading():
        return store.block("gpu", key, T0, T0 + 30.0).array()


def test_the_store_holds_what_it_would_hold_beside_the_agents() -> None:
    gateway, beside = Gateway(), Store(load_registry(), clock=VirtualClock(T0 + 30.0))
    rounds = [[seen(gpu(n), tick) for n in range(5)] for tick in (1, 2, 3)]
    for raw in ticks(rounds):
        gateway.take(raw)
    gateway.flush()
    for round_ in rounds:
        beside.write([replace(o, starts_s={}) for o in round_])
    assert gateway.store.entities("gpu") == beside.entities("gpu")
    assert gateway.store.entities("job") == beside.entities("job")
    for key in values():
        np.testing.assert_array_equal(rows(gateway.store, key), rows(beside, key), key)
    assert gateway.store.counts["stored"] == 15 * len(values())


def test_many_requests_make_few_writes() -> None:
    gateway = Gateway()
    for number in range(50):
        gateway.take(ticks([[seen(gpu(number))]])[0])
    assert gateway.ids() == set()
    gateway.flush()
    assert len(gateway.ids()) == 50
    gateway.flush()
    assert gateway.store.counts["stored"] == 50 * len(values())


def test_an_entity_that_ended_is_gone_after_a_minute() -> None:
    gateway = Gateway()
    for raw in ticks([[seen(gpu(1), 1), seen(gpu(2), 1)], [seen(gpu(1), 2)]]):
        gateway.take(raw)
    gateway.flush()
    assert gateway.ids() == {gpu(1).id, gpu(2).id}
    gateway.clock.advance(END_AFTER_S)
    gateway.flush()
    assert gateway.ids() == {gpu(1).id}


def test_the_seconds_of_a_gpu_neither_keep_it_after_its_job_nor_bring_it_back() -> None:
    gateway = Gateway()
    seconds = {"gpu_time_allocated": 10.0, "gpu_time_observed": 10.0}
    rounds = [[seen(gpu(1), tick, {"ofu": 0.4, **seconds})] for tick in (1, 2)]
    *before, ending, after = ticks(
        [*rounds, [seen(gpu(1), 3, seconds)], [seen(gpu(1), 4, seconds)]]
    )
    for raw in before:
        gateway.take(raw)
    gateway.take(ending)
    gateway.clock.advance(END_AFTER_S)
    gateway.take(after)
    gateway.flush()
    assert gateway.ids() == set()
    total = gateway.fleet.times.totals_of("4711", {})
    assert total is not None
    assert total.seen_s == T0 + 40.0


def test_the_end_of_the_seconds_of_a_gpu_ends_nothing_else() -> None:
    gateway = Gateway()
    values = {"ofu": 0.4, "gpu_time_allocated": 10.0}
    for raw in ticks([[seen(gpu(1), 1, values)], [seen(gpu(1), 2, {"ofu": 0.4})]]):
        assert not gateway.take(raw).ended


def test_an_agent_that_restarts_keeps_its_gpus() -> None:
    gateway = Gateway()
    for raw in ticks([[seen(gpu(1), 1)], []]):
        gateway.take(raw)
    gateway.flush()
    gateway.clock.advance(END_AFTER_S / 2)
    gateway.take(ticks([[seen(gpu(1), 3)]])[0])
    gateway.clock.advance(END_AFTER_S)
    gateway.flush()
    assert gateway.ids() == {gpu(1).id}
    expected = np.array([0.251, np.nan, 0.253], np.float32)
    np.testing.assert_array_equal(rows(gateway.store, "ofu")[:, 0], expected)


def test_jobs_that_churn_leave_nothing_behind() -> None:
    gateway = Gateway()
    for tick, raw in enumerate(ticks([[seen(gpu(1, f"job-{t}"), t)] for t in range(1, 200)]), 1):
        gateway.clock.set(T0 + 10.0 * tick)
        gateway.take(raw)
        gateway.flush()
    assert len(gateway.ids()) <= 1 + END_AFTER_S / 10
    assert len(gateway.store.entities("job")) <= 1 + END_AFTER_S / 10
    assert len(gateway.fleet.endings.ids("gpu")) <= 1 + END_AFTER_S / 10


def speed(job: str, tflops: float, **attributes: Attribute) -> bytes:
    metric = gauge("megatron.training.throughput_tflops", point(tflops, time_s=T0 + 10))
    return body({"slurm.job.id": job, "process.pid": 7, **attributes}, metric)


def test_what_a_job_says_of_itself_leaves_its_attributes_as_they_are() -> None:
    gateway = Gateway()
    known = Entity("job", "7", {"ofu.job.id": "7", "slurm.partition": "batch"})
    gateway.store.write([Observation(known, Window(T0, T0 + 10), {"job_ofu": 0.5})])
    gateway.take(speed("7", 400.0))
    gateway.take(speed("8", 300.0))
    gateway.flush()
    jobs = {entity.id: entity for entity in gateway.store.entities("job")}
    assert jobs["7"] == known
    assert jobs["8"].attributes == {"ofu.job.id": "8", "slurm.job.id": "8", "process.pid": 7}


def test_the_exporters_get_the_newest_of_what_jobs_said() -> None:
    gateway = Gateway()
    gateway.take(speed("7", 400.0))
    gateway.take(speed("7", 410.0))
    gateway.take(body({"ofu.job.id": "7"}, gauge("ml.training.mfu", point(0.5, time_s=T0 + 10))))
    (told,) = gateway.buffer.take_pushed()
    assert told.values == {"model_flop_rate": 4.1e14, "mfu_reported": 0.5}
    assert told.entity.id == "7"
    assert list(gateway.buffer.take_pushed()) == []


class BrokenStore(Store):
    """A disk that is full, a bug: whatever may go wrong below."""

    def admit(self, entities: object, window: object) -> object:  # type: ignore[override]
        raise OSError(28, "No space left on device")


def test_a_store_that_fails_is_counted_and_does_not_end_the_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = BrokenStore(load_registry(), clock=VirtualClock(T0 + 30.0))
    work = DecodeWorker(Decoder(load_registry()), Buffer(store), SystemClock(), 10)
    outcomes: list[DecodeOutcome] = []
    (raw,) = ticks([[seen(gpu(1))]])
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            work.offer(
                DecodeTask(raw, "protobuf", gzipped=False, limit=10**6, reply=outcomes.append)
            )
        work.start()
        work.close(HANGS_S)
    assert [outcome.refusal for outcome in outcomes] == [None] * 3
    assert work.counts["failed"] >= 1
    assert len(caplog.records) == 1
    assert not work.offer(
        DecodeTask(raw, "protobuf", gzipped=False, limit=1, reply=outcomes.append)
    )


class BrokenDecoder(Decoder):
    def decode(self, raw: bytes, now_s: float) -> Intake:
        raise ZeroDivisionError(f"{len(raw)} {now_s}")


def test_a_request_that_breaks_the_decoder_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(load_registry())
    work = DecodeWorker(BrokenDecoder(load_registry()), Buffer(store), SystemClock(), 10)
    outcomes: list[DecodeOutcome] = []
    work.offer(DecodeTask(b"", "protobuf", gzipped=False, limit=1, reply=outcomes.append))
    work.start()
    work.close(HANGS_S)
    (refusal,) = [outcome.refusal for outcome in outcomes]
    assert refusal is not None
    assert (refusal.status, code_of(refusal), refusal.retry_s) == (500, GrpcCode.INTERNAL, 0)
    assert caplog.records


def test_a_gateway_counts_the_first_event_of_a_counter() -> None:
    """The agent sends a 0 at the time until which there was none."""
    made = MetricEncoder(load_registry(), {}, EncoderOptions(T0))
    entity = Entity("gpu", "GPU-1", {"hw.id": "GPU-1", "host.name": "n1"})
    rounds = [
        Observation(entity, Window(T0, T0 + 10), {"ofu": 0.4}),
        Observation(
            entity, Window(T0 + 10, T0 + 20), {"xid:79": 1.0}, starts_s={"xid:79": T0 + 10}
        ),
    ]
    gateway = Gateway()
    for each in rounds:
        for sent in made.encode([each]):
            gateway.take(unpack(sent).SerializeToString())
        gateway.flush()
    assert np.nansum(rows(gateway.store, "xid:79")) == 1
