from __future__ import annotations

from otel_ofu.sources.dcgm.codes import NO_DATA
from otel_ofu.sources.dcgm.session import RecentSamples
from otel_ofu.sources.dcgm.wire import DcgmSample

GPU = (1, 0)


def sample(at_us: int, value: float = 1.0) -> DcgmSample:
    return DcgmSample(1004, 0, at_us, value)


def test_samples_of_one_read_are_taken_once_and_in_order() -> None:
    found = [(GPU, sample(at_us)) for at_us in (1, 1, 2, 2, 2, 3)]
    assert RecentSamples().rows(found) == {GPU: [sample(1), sample(2), sample(3)]}


def test_where_nothing_came_the_sample_stays_so_that_its_age_can_be_told() -> None:
    recent = RecentSamples()
    recent.rows([(GPU, sample(1))])
    assert recent.rows([(GPU, sample(1))]) == {GPU: [sample(1)]}
    assert recent.rows([]) == {GPU: [sample(1)]}
    assert recent.rows([(GPU, DcgmSample(1004, NO_DATA, 0, None))]) == {GPU: [sample(1)]}


def test_a_read_that_comes_late_does_not_take_everything() -> None:
    kept = RecentSamples().rows([(GPU, sample(at_us)) for at_us in range(10_000)])[GPU]
    assert len(kept) < 2000
    assert kept[-1] == sample(9_999)
