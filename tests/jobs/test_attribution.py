from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.jobs import PROVIDERS
from otel_ofu.jobs.attribution import Attribution, Claims
from otel_ofu.jobs.owner import Claim, JobOwner

POD = {"k8s.namespace.name": "ml", "k8s.pod.name": "a"}


def owners(*processes: Claims, allocated: Claims = ()) -> tuple[JobOwner, ...]:
    return Attribution(PROVIDERS).owners(dict(enumerate(processes, 1)), allocated)


def found(*processes: Claims, allocated: Claims = ()) -> list[tuple[str, tuple[int, ...], float]]:
    told = owners(*processes, allocated=allocated)
    return [(owner.job_id, owner.pids, owner.share) for owner in told]


def slurm(job: str, **attributes: str) -> Claim:
    return Claim("slurm", job, attributes)


def torchrun(run: str) -> Claim:
    return Claim("torchrun", run)


def pod(name: str = "a") -> Claim:
    return Claim("k8s", f"ml/{name}", {**POD, "k8s.pod.name": name})


def source(job: str, **attributes: str) -> Claim:
    return Claim("source", job, {"ofu.job.source": "scrape", **attributes})


def test_two_jobs_on_a_gpu_are_two_owners_of_a_half() -> None:
    assert found([slurm("1")], [slurm("2")], [slurm("1")]) == [("1", (1, 3), 0.5), ("2", (2,), 0.5)]


def test_nobody_is_no_owner() -> None:
    assert found() == []
    assert found([]) == []


def test_a_process_that_nobody_knows_takes_no_share() -> None:
    assert found([], [slurm("1")]) == [("1", (2,), 1.0)]


def test_equal_ids_of_two_providers_are_two_jobs() -> None:
    assert [owner.source for owner in owners([slurm("1")], [torchrun("1")])] == [
        "slurm",
        "torchrun",
    ]


def test_what_processes_of_a_job_do_not_agree_on_is_left_out() -> None:
    (owner,) = owners([slurm("1", name="x", queue="q")], [slurm("1", name="y", queue="q")])
    assert owner.attributes == {"ofu.job.id": "1", "ofu.job.source": "slurm", "queue": "q"}


def test_the_provider_that_comes_first_is_believed_on_attributes() -> None:
    (owner,) = owners([Claim("torchrun", "r", {"team": "b"}), slurm("1", team="a")])
    assert owner.attributes["team"] == "a"


def test_a_launcher_on_a_gpu_of_one_job_runs_in_that_job() -> None:
    assert found([torchrun("r")], allocated=[slurm("9")]) == [("9", (1,), 1.0)]
    assert found([torchrun("r")], allocated=[pod()]) == [("ml/a", (1,), 1.0)]


def test_a_process_that_nobody_knows_on_a_gpu_of_one_job_is_of_that_job() -> None:
    assert found([], allocated=[slurm("9")]) == [("9", (1,), 1.0)]


def test_a_launcher_on_a_gpu_of_two_jobs_is_of_neither() -> None:
    assert found([torchrun("r")], allocated=[slurm("8"), slurm("9")]) == [
        ("8", (), 1 / 3),
        ("9", (), 1 / 3),
        ("r", (1,), 1 / 3),
    ]


def test_a_launcher_outside_of_the_two_pods_that_share_a_gpu_is_a_job_of_its_own() -> None:
    assert [job for job, _, _ in found([torchrun("r")], allocated=[pod("a"), pod("b")])] == [
        "ml/a",
        "ml/b",
        "r",
    ]


def test_a_job_on_a_gpu_of_another_job_is_an_owner_of_its_own() -> None:
    assert found([slurm("1")], allocated=[slurm("9")]) == [("1", (1,), 0.5), ("9", (), 0.5)]


def test_a_mapped_job_is_the_schedulers_of_the_same_id() -> None:
    mapped = Claim("mapping_dir", "5")
    assert [owner.source for owner in owners([slurm("5")], allocated=[mapped])] == ["slurm"]
    assert [owner.source for owner in owners(allocated=[mapped])] == ["mapping_dir"]
    assert found(allocated=[slurm("5"), slurm("6"), mapped]) == [("5", (), 0.5), ("6", (), 0.5)]


def test_a_mapped_environment_names_the_job_that_was_allocated() -> None:
    exp = Claim("environment", "exp")
    assert found([exp, slurm("5")], allocated=[slurm("5")]) == [("exp", (1,), 1.0)]


def test_two_schedulers_of_one_gpu_run_inside_each_other() -> None:
    (owner,) = owners(allocated=[pod(), slurm("5")])
    assert (owner.job_id, owner.attributes["k8s.pod.name"]) == ("5", "a")


@pytest.mark.parametrize("process", [[slurm("1")], [torchrun("1")], []])
def test_a_source_adds_to_the_only_owner_or_is_the_owner(process: Claims) -> None:
    (owner,) = owners(process, allocated=[source("s", team="t")])
    expected = ("1", "slurm") if process == [slurm("1")] else ("s", "scrape")
    assert (owner.job_id, owner.source) == expected
    assert owner.attributes["team"] == "t"


def test_owners_of_a_source_are_the_jobs_that_it_names_alike() -> None:
    said = (Claim("source", "ml/a", {"team": "t"}, 0.75), Claim("source", "ml/b", {}, 0.25))
    told = owners([pod("a")], allocated=[pod("a"), pod("b"), *said])
    assert [(o.job_id, o.pids, o.share) for o in told] == [("ml/a", (1,), 0.75), ("ml/b", (), 0.25)]
    assert told[0].attributes["team"] == "t"


def test_a_source_that_names_a_job_which_is_there_may_know_another() -> None:
    said = [source("1"), source("2")]
    assert found([slurm("1")], allocated=said) == [("1", (1,), 0.5), ("2", (), 0.5)]
    assert found(allocated=said) == [("1", (), 0.5), ("2", (), 0.5)]


def test_a_source_whose_jobs_are_all_unknown_here_says_nothing() -> None:
    """It may number other things: two runs of a launcher in two pods are not four owners."""
    told = found([torchrun("r")], [torchrun("s")], allocated=[source("ml/a"), source("ml/b")])
    assert told == [("r", (1,), 0.5), ("s", (2,), 0.5)]


def test_a_source_says_nothing_of_one_of_two_owners() -> None:
    told = owners([slurm("1")], [slurm("2")], allocated=[source("s", team="t")])
    assert [owner.job_id for owner in told] == ["1", "2"]
    assert not [owner for owner in told if "team" in owner.attributes]


CLAIMS = st.builds(
    Claim,
    st.sampled_from(PROVIDERS),
    st.sampled_from(["", "1", "2", "3"]),
    st.dictionaries(st.sampled_from(["x", "k8s.pod.name"]), st.sampled_from("ab")),
)


@given(st.lists(st.lists(CLAIMS, max_size=4), max_size=5), st.lists(CLAIMS, max_size=5))
def test_whatever_is_said_shares_add_up_and_a_process_has_one_owner(
    processes: list[list[Claim]], allocated: list[Claim]
) -> None:
    told = owners(*processes, allocated=[claim for claim in allocated if claim.job_id])
    if told:
        assert sum(owner.share for owner in told) == pytest.approx(1.0)
    pids = [pid for owner in told for pid in owner.pids]
    assert len(pids) == len(set(pids))
    jobs = [(owner.source, owner.job_id) for owner in told]
    assert len(jobs) == len(set(jobs))
    for owner in told:
        assert owner.attributes["ofu.job.id"] == owner.job_id != ""
        assert owner.attributes["ofu.job.source"] == owner.source
