"""XIDs of dcgm-exporter: a gauge that shows the last code for ever."""

from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.vendors import load_vendors
from otel_ofu.model import Reading
from otel_ofu.model.clock import VirtualClock
from otel_ofu.sources.scrape.events import EventCounts
from otel_ofu.sources.scrape.page import PageReader, ScrapeContext
from tests.sources.scrape.golden import NOW_S


def counts(*codes: float | None) -> list[dict[str, float]]:
    events = EventCounts()
    return [dict(events.observe("g", {} if code is None else {"xid": code})) for code in codes]


def test_the_code_that_is_there_at_the_start_is_old_news() -> None:
    assert counts(79, 79, 79) == [{}, {}, {}]


def test_a_change_counts() -> None:
    assert counts(31, 43, 43, 79)[-1] == {"xid:43": 1, "xid:79": 1}


def test_the_first_code_of_a_gpu_that_was_seen_without_counts() -> None:
    assert counts(0, 79)[-1] == {"xid:79": 1}
    assert counts(None, 79)[-1] == {"xid:79": 1}


def test_a_series_that_was_away_brings_no_new_event() -> None:
    assert counts(0, 79, None, 79)[-1] == {"xid:79": 1}
    assert counts(79, None, 79)[-1] == {}


def test_the_same_code_after_an_explicit_none_counts_again() -> None:
    assert counts(0, 79, 0, 79)[-1] == {"xid:79": 2}


def page(code: str, joules: int) -> str:
    labels = 'gpu="0",UUID="GPU-0"'
    return (
        f"DCGM_FI_DEV_XID_ERRORS{{{labels}}} {code}\n"
        f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{labels}}} {joules}\n"
    )


def read(*pages: str) -> list[Reading]:
    context = ScrapeContext(load_vendors(), load_registry(), VirtualClock(NOW_S), 10.0)
    reader = PageReader(context, "node")
    return [
        reading
        for i, text in enumerate(pages)
        for reading in reader.read(text, NOW_S + 10.0 * i).readings
    ]


def test_an_error_is_a_counter_of_its_code() -> None:
    first, second, third = read(page("31", 1), page("79", 2), page("79", 3))
    assert not any(key.startswith("xid") for key in first.values)
    assert second.values["xid:79"] == third.values["xid:79"] == 1


def test_an_error_on_a_page_that_is_equal_otherwise_is_seen() -> None:
    _, second = read(page("0", 1), page("79", 1))
    assert second.values["xid:79"] == 1


def test_what_is_no_code_is_no_event() -> None:
    for text in ("-1", "79.5", "1e9", "NaN", "9223372036854775792"):
        _, second = read(page("0", 1), page(text, 2))
        assert not any(key.startswith("xid") for key in second.values)
