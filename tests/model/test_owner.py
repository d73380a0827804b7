from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.model import Owner
from otel_ofu.model.owner import agreed, even_out

shares = st.lists(st.none() | st.floats(0, 1, exclude_min=True), max_size=6)


@pytest.mark.parametrize(
    ("stated", "parts"),
    [
        ([], ()),
        ([None], (1.0,)),
        ([None, None], (0.5, 0.5)),
        ([0.5, None, None], (0.5, 0.25, 0.25)),
        ([0.25, 0.5], (0.25, 0.5)),
        ([0.333333, 0.333333, 0.333334], (0.333333, 0.333333, 0.333334)),
        ([1.0, None], (0.5, 0.5)),
        ([0.75, 0.75], (0.5, 0.5)),
    ],
)
def test_what_is_not_stated_is_even(stated: list[float | None], parts: tuple[float, ...]) -> None:
    assert even_out(stated) == pytest.approx(parts)


@given(shares)
def test_parts_of_a_device_never_exceed_it(stated: list[float | None]) -> None:
    parts = even_out(stated)
    assert len(parts) == len(stated)
    assert all(0 < part <= 1 for part in parts)
    assert sum(parts) <= 1 + 1e-5


def test_a_pod_names_a_job_unless_the_source_names_one() -> None:
    pod = {"k8s.namespace.name": "ml", "k8s.pod.name": "a"}
    named = {**pod, "ofu.job.id": "ml/a", "ofu.job.source": "scrape"}
    assert Owner(pod, 0.5).named("scrape") == Owner(named, 0.5)
    job = {**pod, "ofu.job.id": "7", "ofu.job.source": "demo"}
    assert Owner(job).named("recording") == Owner(job)
    assert Owner({"team": "t"}).named("scrape") == Owner({"team": "t"})


def test_of_all_owners_is_what_they_agree_on() -> None:
    assert agreed([Owner({"a": "1", "b": "2"}), Owner({"a": "1", "b": "3"})]) == {"a": "1"}
    assert agreed([Owner({"b": "2", "a": "1"})]) == {"b": "2", "a": "1"}
    assert agreed([]) == {}
