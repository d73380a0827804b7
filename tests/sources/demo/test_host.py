"""The node's own load follows from what its ranks do."""

from collections.abc import Mapping

from otel_ofu.catalog.registry import load_registry
from otel_ofu.sources.demo import DemoSource, Scenario, TroubleSpan


def host(trouble: str | None) -> Mapping[str, float]:
    spans = [] if trouble is None else [TroubleSpan(trouble=trouble, start_s=0)]
    return DemoSource(Scenario(spans=spans), interval_s=30.0).host_values(300.0)


def test_before_the_first_window_nothing_is_known_of_the_node() -> None:
    assert DemoSource("healthy").host_values(5.0) == {}


def test_what_is_told_is_a_metric_of_the_node_in_its_range() -> None:
    metrics = load_registry().metrics
    for trouble in (None, "debug_flag", "cpu_offload", "idle", "warm_up"):
        for key, value in host(trouble).items():
            assert metrics[key].entity == "node"
            assert metrics[key].check(value) is None


def test_starved_by_storage_the_node_waits_for_it() -> None:
    assert host("data_loader")["pressure_io_some"] > 0.3 > host(None)["pressure_io_some"]


def test_checks_between_collectives_are_work_of_the_kernel() -> None:
    assert host("debug_flag")["cpu_system"] > 1.5 * host(None)["cpu_system"]


def test_an_optimizer_on_the_cpu_fills_the_cores() -> None:
    assert host("cpu_offload")["cpu_user"] > 0.7 > host(None)["cpu_user"]
