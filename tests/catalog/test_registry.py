from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.registry import AttributeDefinition, Metric, load_registry

REGISTRY = load_registry()
KEYS = list(REGISTRY.metrics)


@pytest.mark.parametrize("key", KEYS)
def test_whatever_a_metric_puts_on_points_is_a_defined_attribute(key: str) -> None:
    metric = REGISTRY.metric(key)
    for name in [*metric.attributes, *metric.labels, *metric.points_with]:
        attribute = REGISTRY.attributes[name]
        assert attribute.where in ("point", "both")
    for name, value in metric.attributes.items():
        _assert_allowed(REGISTRY.attributes[name], value)


def _assert_allowed(attribute: AttributeDefinition, value: str) -> None:
    assert not attribute.values or value in attribute.values


def test_keys_of_one_metric_agree_and_are_told_apart_by_their_attributes() -> None:
    by_name: dict[str, list[Metric]] = {}
    for metric in REGISTRY.metrics.values():
        by_name.setdefault(metric.name, []).append(metric)
    for name, metrics in by_name.items():
        assert len({(m.unit, m.kind, m.entity) for m in metrics}) == 1, name
        distinct = {(tuple(sorted(m.attributes.items())), tuple(m.labels)) for m in metrics}
        assert len(distinct) == len(metrics), name


def test_names_are_lower_dotted_and_end_without_a_unit() -> None:
    for metric in REGISTRY.metrics.values():
        assert re.fullmatch(r"[a-z]+(\.[a-z_]+)+", metric.name)


@pytest.mark.parametrize("key", KEYS)
def test_a_range_is_no_empty_one(key: str) -> None:
    low, high = REGISTRY.metric(key).range
    assert low is None or high is None or low <= high


def test_field_ids_and_exporter_names_each_stand_for_one_key() -> None:
    gpm = [m.gpm.id for m in REGISTRY.metrics.values() if m.gpm]
    dcgm = [m.dcgm.id for m in REGISTRY.metrics.values() if m.dcgm]
    names = [name for m in REGISTRY.metrics.values() if m.dcgm for name in m.dcgm.names]
    for ids in (gpm, dcgm, names):
        assert len(ids) == len(set(ids))
    assert REGISTRY.by_gpm_id[5] == REGISTRY.by_dcgm_id[1004] == "tensor_active"
    assert REGISTRY.by_dcgm_name["DCGM_FI_DEV_SM_CLOCK"] == ("sm_clock", 1e6)
    assert REGISTRY.by_dcgm_name["DCGM_FI_DEV_SM_CLOCK_HERTZ"] == ("sm_clock", 1)


def test_derived_metrics_have_no_field_id() -> None:
    derived = [m for m in REGISTRY.metrics.values() if m.derived]
    assert derived
    assert not [m for m in derived if m.gpm or m.dcgm]


def test_a_labelled_key_gives_its_metric_and_point_attributes() -> None:
    assert REGISTRY.metric("xid:79").name == "hw.errors"
    assert REGISTRY.point_attributes("xid:79")["error.type"] == "xid_79"
    assert REGISTRY.point_attributes("ofu_gap:stale") == {"ofu.gap.reason": "stale"}
    assert REGISTRY.point_attributes("tensor_active") == {"ofu.pipe": "tensor"}


def test_an_unknown_key_or_a_missing_label_is_an_error() -> None:
    with pytest.raises(KeyError):
        REGISTRY.metric("nothing")
    with pytest.raises(ValueError, match="shorter"):
        REGISTRY.point_attributes("xid")


@given(st.sampled_from(KEYS), st.floats())
def test_a_value_is_possible_exactly_inside_its_range(key: str, value: float) -> None:
    low, high = REGISTRY.metric(key).range
    inside = (
        math.isfinite(value)
        and value >= (-math.inf if low is None else low)
        and value <= (math.inf if high is None else high)
    )
    assert (REGISTRY.check(key, value) is None) == inside


@pytest.mark.parametrize(
    ("key", "value", "detail"),
    [
        ("tensor_active", 1.01, "1.01; allowed: 0 to 1"),
        ("temperature", float("nan"), "nan Cel; allowed: -50 to 200"),
        ("energy", -1.0, "-1 J; allowed: 0 or more"),
        ("xid:79", -1.0, "-1; allowed: 0 or more"),
    ],
)
def test_a_value_out_of_range_is_shown_with_what_is_allowed(
    key: str, value: float, detail: str
) -> None:
    gap = REGISTRY.check(key, value)
    assert gap is not None
    assert gap.detail == detail
