from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.report.timeline import MOST_BUCKETS, BucketSums, Timelines


def amounts(value: float) -> list[float]:
    return [value] + [0.0] * (len(BucketSums) - 1)


ADDED = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(-50_000, 50_000).map(float),
        st.integers(1, 9).map(float),
    ),
    max_size=60,
)


def filled(added: list[tuple[str, float, float]]) -> Timelines:
    made = Timelines(30.0)
    for job, time_s, value in added:
        made.add(job, time_s, amounts(value))
    return made


@given(ADDED)
def test_nothing_is_lost_and_the_buckets_stay_few(added: list[tuple[str, float, float]]) -> None:
    made = filled(added)
    for job in made:
        starts, sums = made.of(job)
        assert sums[:, BucketSums.HELD].sum() == sum(v for j, _, v in added if j == job)
        assert len(starts) == len(sums) <= MOST_BUCKETS


@given(ADDED, st.randoms(use_true_random=False))
def test_the_order_does_not_matter(added: list[tuple[str, float, float]], random: object) -> None:
    other = list(added)
    random.shuffle(other)  # type: ignore[attr-defined]
    first, second = filled(added), filled(other)
    assert first.width_s == second.width_s
    for job in first:
        for one, two in zip(first.of(job), second.of(job), strict=True):
            assert np.array_equal(one, two)


@given(ADDED)
def test_each_amount_is_in_the_bucket_of_its_time(added: list[tuple[str, float, float]]) -> None:
    made = filled(added)
    for job, time_s, _ in added:
        starts, sums = made.of(job)
        place = int(np.searchsorted(starts, time_s, side="right")) - 1
        assert starts[place] <= time_s < starts[place] + made.width_s
        assert sums[place, BucketSums.HELD] > 0


def test_the_width_doubles_only_when_it_has_to() -> None:
    made = Timelines(30.0)
    made.add("a", 0.0, amounts(1))
    made.add("a", 30.0 * (MOST_BUCKETS - 1), amounts(1))
    assert made.width_s == 30.0
    made.add("b", 30.0 * MOST_BUCKETS, amounts(1))
    assert made.width_s == 60.0


def test_a_span_is_known() -> None:
    made = Timelines(30.0)
    assert not made.spans(0.0)
    made.add("a", 60.0, amounts(1))
    made.add("a", 120.0, amounts(1))
    assert [made.spans(t) for t in (59.0, 60.0, 149.0, 150.0, float("nan"))] == [
        False, True, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize("width_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_width_that_is_none_is_refused(width_s: float) -> None:
    with pytest.raises(ValueError, match="allowed: above 0"):
        Timelines(width_s)
