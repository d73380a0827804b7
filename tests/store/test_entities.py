from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.model import Entity
from otel_ofu.store import Retention
from tests.store.fleets import NAN, START_S, Bench, gpu, seen


def names(bench: Bench, kind: str) -> list[str]:
    assert kind in {"gpu", "job", "node"}
    return [e.id for e in bench.store.entities(kind)]  # type: ignore[arg-type] # just asserted


def test_gpus_bring_their_jobs_and_nodes_along() -> None:
    bench = Bench()
    attributes = {"slurm.job.id": "7", "ofu.job.id": "7", "host.name": "n1", "hw.id": "GPU-0"}
    bench.write(seen(Entity("gpu", "GPU-0", attributes), 10, {"ofu": 0.1}))
    (job,), (node,) = bench.store.entities("job"), bench.store.entities("node")
    assert job == Entity("job", "7", {"slurm.job.id": "7", "ofu.job.id": "7"})
    assert node == Entity("node", "n1", {"host.name": "n1"})


def test_an_implied_job_ends_with_its_last_gpu() -> None:
    bench = Bench()
    bench.write(seen(gpu("a", "j1"), 10, {}), seen(gpu("b", "j1"), 10, {}))
    bench.write(seen(gpu("a", "j2"), 20, {}))
    assert names(bench, "job") == ["j1", "j2"]
    assert bench.store.end("gpu", "b")
    assert names(bench, "job") == ["j2"]


def test_a_job_that_reports_for_itself_ends_when_it_is_ended() -> None:
    bench = Bench()
    bench.write(seen(gpu("a", "j1"), 10, {}), seen(Entity("job", "j1", {}), 10, {}))
    bench.store.end("gpu", "a")
    assert names(bench, "job") == ["j1"]
    assert bench.store.end("job", "j1")
    assert not bench.store.end("job", "j1")


def test_peers_are_of_the_same_job_and_sku() -> None:
    bench = Bench()
    fleet = [
        gpu("a", "j1"),
        gpu("b", "j1"),
        gpu("c", "j1", sku="a100"),
        gpu("d", "j2"),
        gpu("e"),
        gpu("f"),
    ]
    bench.write(*(seen(g, 10, {}) for g in fleet))
    peers = bench.store.membership.peers(6)
    assert peers[0] == peers[1]
    assert len({peers[0], peers[2], peers[3]}) == 3
    assert peers[4] == peers[5] == -1
    assert bench.store.membership.jobs(6).tolist() == [0, 0, 0, 1, -1, -1]
    assert bench.store.membership.nodes(6).tolist() == [0] * 6


def test_a_gpu_that_changes_its_job_changes_its_peers() -> None:
    bench = Bench()
    bench.write(seen(gpu("a", "j1"), 10, {}), seen(gpu("b", "j2"), 10, {}))
    bench.write(seen(gpu("a", "j2"), 20, {}))
    peers = bench.store.membership.peers(2)
    assert peers[0] == peers[1] != -1
    bench.write(seen(gpu("a"), 30, {}))
    assert bench.store.membership.peers(2)[0] == -1


def test_an_ended_job_leaves_its_gpus_without_one() -> None:
    bench = Bench()
    bench.write(seen(gpu("a", "j1"), 10, {}))
    bench.store.end("job", "j1")
    bench.store.end("node", "n0")
    assert bench.store.membership.jobs(1).tolist() == [-1]
    assert bench.store.membership.nodes(1).tolist() == [-1]
    assert bench.store.membership.peers(1).tolist() == [-1]


def test_a_column_is_given_again_without_the_history_of_who_had_it() -> None:
    bench = Bench()
    bench.write(seen(gpu("a"), 10, {"ofu": 0.1, "energy": 5.0}))
    bench.store.end("gpu", "a")
    bench.write(seen(gpu("b"), 20, {"ofu": 0.2, "energy": 9.0}))
    np.testing.assert_equal(bench.rows("ofu", 20, 20), [NAN, 0.2])
    assert math.isnan(bench.rows("energy", 10, 20)[0])
    assert bench.store.block("gpu", "ofu", START_S, START_S + 20).columns == 1


def test_silent_entities_are_forgotten_in_the_end() -> None:
    bench = Bench(Retention(forget_s=3600))
    bench.write(seen(gpu("a", "j1"), 10, {"ofu": 0.1}), seen(gpu("b"), 10, {"ofu": 0.1}))
    bench.write(seen(gpu("b"), 3600, {"ofu": 0.1}))
    assert names(bench, "gpu") == ["a", "b"]
    bench.write(seen(gpu("b"), 3680, {"ofu": 0.1}))
    assert names(bench, "gpu") == ["b"]
    assert names(bench, "job") == []
    assert names(bench, "node") == ["n0"]


def test_a_job_and_a_node_that_fell_silent_stay_while_their_gpus_do() -> None:
    bench = Bench(Retention(forget_s=3600))
    parents = (Entity("job", "j1", {}), Entity("node", "n0", {}))
    bench.write(seen(gpu("a", "j1"), 10, {}), *(seen(entity, 10, {}) for entity in parents))
    for at_s in (3600, 3680, 7300):
        bench.write(seen(gpu("a", "j1"), at_s, {"ofu": 0.1}))
    assert (names(bench, "job"), names(bench, "node")) == (["j1"], ["n0"])
    assert bench.store.membership.nodes(1).tolist() == [0]
    bench.store.end("gpu", "a")
    assert (names(bench, "job"), names(bench, "node")) == ([], [])


def test_ten_thousand_jobs_that_come_and_go_leave_nothing_behind() -> None:
    bench = Bench(Retention(depth_s=300))
    for number in range(2_000):
        at_s = 10.0 * number
        bench.write(*(seen(gpu(f"g{i}", f"j{number}-{i}"), at_s, {"ofu": 1}) for i in range(5)))
    assert len(names(bench, "job")) == 5
    assert len(bench.store.slots("job")) <= 10
    assert bench.store.membership.peer_limit <= 10


def test_history_stays_while_the_fleet_grows() -> None:
    bench = Bench()
    for tick in range(1, 6):
        fleet = [gpu(f"g{i}", f"j{i // 4}") for i in range(20**tick % 937 + tick)]
        bench.write(*(seen(g, 10 * tick, {"ofu": tick / 10}) for g in fleet))
    assert bench.rows("ofu", 50, 50) == [0.1, 0.2, 0.3, 0.4, 0.5]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["", "j1", "j2"]), st.sampled_from("xy"))
        | st.tuples(st.sampled_from("abcd"), st.none(), st.none()),
        max_size=30,
    )
)
def test_membership_is_what_the_last_attributes_say(
    changes: Sequence[tuple[str, str | None, str | None]],
) -> None:
    bench = Bench()
    now: dict[str, tuple[str, str]] = {}
    for tick, (name, job, sku) in enumerate(changes):
        if job is None or sku is None:
            assert bench.store.end("gpu", name) == (now.pop(name, None) is not None)
        else:
            bench.write(seen(gpu(name, job, sku=sku), 10 * tick, {}))
            now[name] = job, sku
    membership, slots = bench.store.membership, bench.store.slots("gpu")
    peers = membership.peers(len(slots))
    jobs = membership.jobs(len(slots))
    job_slots = bench.store.slots("job")
    assert {e.id for _, e in slots} == set(now)
    assert {e.id for _, e in job_slots} == {job for job, _ in now.values() if job}
    for slot, entity in slots:
        job, _ = now[entity.id]
        assert jobs[slot] == (job_slots.find(job) if job else -1)
        for other, another in slots:
            same = bool(job) and now[entity.id] == now[another.id]
            assert (peers[slot] == peers[other] != -1) == same
