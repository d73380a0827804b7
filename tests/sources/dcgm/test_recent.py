from __future__ import annotations

from otel_ofu.sources.dcgm.session import RecentSamples
from otel_ofu.sources.dcgm.wire import DcgmSample

GPU = (1, 0)


def sample(at_us: int, value: float = 1.0) -> DcgmSample:
    return DcgmSample(1004, 0, at_us, value)


def test_samples_between_two_reads_are_kept_once_and_in_order() -> None:
    recent = RecentSamples()
    for at_us in (1, 1, 2, 2, 2, 3):
        recent.add(GPU, [sample(at_us)])
    assert recent.take() == {GPU: [sample(1), sample(2), sample(3)]}


def test_where_nothing_came_the_sample_stays_so_that_its_age_can_be_told() -> None:
    recent = RecentSamples()
    recent.add(GPU, [sample(1)])
    recent.take()
    recent.add(GPU, [sample(1)])
    assert recent.take() == {GPU: [sample(1)]}


def test_what_nobody_reads_does_not_grow_for_ever() -> None:
    recent = RecentSamples()
    for at_us in range(10_000):
        recent.add(GPU, [sample(at_us)])
    kept = recent.take()[GPU]
    assert len(kept) < 200
    assert kept[-1] == sample(9_999)
