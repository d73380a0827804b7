from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.skus import InvalidSkus, load_skus

NEW: dict[str, Any] = {
    "title": "Example X1",
    "architecture": "example",
    "names": ["X1", "X1 PCIe"],
    "sms": 10,
    "flops_per_clock_per_sm": {"bf16": 1000},
    "reference_clock_mhz": {"default": 2000},
}


def _without(field: str) -> dict[str, Any]:
    return {key: value for key, value in NEW.items() if key != field}


def _faults(entries: object) -> dict[tuple[str | int, ...], str]:
    with pytest.raises(InvalidSkus) as caught:
        load_skus().extended({"skus": entries})
    return dict(caught.value.faults)


def test_a_user_adds_a_model() -> None:
    skus = load_skus().extended({"skus": {"x1": NEW}})
    sku = skus.match("NVIDIA X1 24GB")
    assert sku is not None
    assert (sku.id, sku.peak_flops("bf16")) == ("x1", 2e13)
    assert skus.match("NVIDIA L40S") is load_skus().match("NVIDIA L40S")


def test_a_user_overrides_one_field_and_the_rest_stays() -> None:
    change = {"h100-sxm5": {"reference_clock_mhz": {"default": 1980}}}
    sku = load_skus().extended({"skus": change}).match("NVIDIA H100 80GB HBM3")
    assert sku is not None
    assert (sku.reference_clock_hz("bf16"), sku.sms) == (1.98e9, 132)


def test_the_built_in_models_are_not_touched() -> None:
    load_skus().extended({"skus": {"h100-sxm5": {"sms": 1}}})
    assert load_skus().by_id["h100-sxm5"].sms == 132


def test_a_users_name_wins_over_a_built_in_one() -> None:
    skus = load_skus().extended({"skus": {"x1": NEW | {"names": ["H100 PCIe"]}}})
    sku = skus.match("NVIDIA H100 PCIe")
    assert sku is not None
    assert sku.id == "x1"


def test_a_users_name_with_a_memory_size_holds_for_that_size_only() -> None:
    skus = load_skus().extended({"skus": {"x1": NEW | {"names": ["A100-SXM-64GB"]}}})
    custom, standard = skus.match("NVIDIA A100-SXM-64GB"), skus.match("NVIDIA A100-SXM4-80GB")
    assert custom is not None
    assert standard is not None
    assert (custom.id, standard.id) == ("x1", "a100-sxm4")


def test_overriding_the_names_drops_the_old_ones() -> None:
    skus = load_skus().extended({"skus": {"l4": {"names": ["L4 custom"]}}})
    assert skus.match("NVIDIA L4") is None


@pytest.mark.parametrize(
    ("entry", "where", "words"),
    [
        (NEW | {"sm": 1}, ("sm",), ["unknown key 'sm'", "allowed:", "sms"]),
        (NEW | {"id": "other"}, ("id",), ["unknown key 'id'"]),
        (
            NEW | {"sms": "many"},
            ("sms",),
            ["expected a whole number, got", "allowed: a whole number"],
        ),
        (NEW | {"sms": 0}, ("sms",), ["allowed: a whole number from 1"]),
        (NEW | {"sms": None}, ("sms",), ["expected a whole number, got"]),
        (_without("sms"), (), ["'sms' is missing", "allowed: a whole number"]),
        (_without("names"), (), ["'names' is missing"]),
        (NEW | {"names": []}, ("names",), ["at least one"]),
        (NEW | {"names": ["NVIDIA"]}, ("names", 0), ["names no model"]),
        (
            NEW | {"reference_clock_mhz": {"default": -1}},
            ("reference_clock_mhz",),
            ["allowed: MHz from 1"],
        ),
        (
            NEW | {"reference_clock_mhz": {"bf16": 1000}},
            ("reference_clock_mhz",),
            ["'default' is missing"],
        ),
        (
            NEW | {"reference_clock_mhz": {"default": float("nan")}},
            ("reference_clock_mhz",),
            ["allowed: MHz"],
        ),
        (
            NEW | {"flops_per_clock_per_sm": {"bf17": 1}},
            ("flops_per_clock_per_sm",),
            ["bf17", "bf16"],
        ),
        (
            NEW | {"flops_per_clock_per_sm": {"bf16": float("inf")}},
            ("flops_per_clock_per_sm",),
            ["allowed:"],
        ),
        ([], (), ["expected a mapping"]),
        (None, (), ["expected a mapping"]),
    ],
)
def test_a_mistake_names_the_entry_and_what_is_allowed(
    entry: object, where: tuple[str | int, ...], words: list[str]
) -> None:
    faults = _faults({"x1": entry})
    assert list(faults) == [("skus", "x1", *where)]
    assert all(word in faults["skus", "x1", *where] for word in words)


def test_all_mistakes_are_found_at_once() -> None:
    faults = _faults({"x1": NEW | {"sms": -1, "title": 3}, "X2": NEW, "x3": {"sms": 1}})
    assert {steps[:2] for steps in faults} == {("skus", "x1"), ("skus", "X2"), ("skus", "x3")}
    assert ("skus", "x1", "sms") in faults
    assert ("skus", "x1", "title") in faults


def test_two_models_cannot_share_a_name() -> None:
    faults = _faults({"x1": NEW, "x2": NEW | {"names": ["pcie x1"]}})
    assert faults == {("skus", "x2", "names", 0): "'pcie x1' is also a name of 'x1'"}


@pytest.mark.parametrize("raw", [{}, {"skus": None}, {"skus": []}, {"gpus": {}}, [], None, "skus"])
def test_a_file_of_another_shape_is_refused(raw: object) -> None:
    with pytest.raises(InvalidSkus, match="expected a mapping `skus:`"):
        load_skus().extended(raw)


def test_an_unknown_key_beside_skus_is_refused() -> None:
    with pytest.raises(InvalidSkus, match=r"\$\.sku: unknown key 'sku'; allowed: skus"):
        load_skus().extended({"skus": {}, "sku": {}})


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
_entries = st.dictionaries(st.sampled_from([*NEW, "max_sm_clock_mhz", "memory_gb"]), _json)


@given(st.dictionaries(st.sampled_from(["x1", "l4", "?"]), _entries | _json))
def test_no_file_breaks_anything_but_its_own_reading(entries: Mapping[str, Any]) -> None:
    try:
        skus = load_skus().extended({"skus": entries})
    except InvalidSkus:
        return
    assert set(entries) <= set(skus.by_id)
