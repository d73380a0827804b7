import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from otel_ofu.catalog.registry import load_registry
from otel_ofu.catalog.vendors import (
    OPERAND,
    ExporterProfile,
    MetricCandidate,
    load_vendors,
    vendors_of,
)
from otel_ofu.model.errors import ConfigError

VENDORS = load_vendors()
PROFILES = pytest.mark.parametrize("profile", VENDORS.profiles.values(), ids=[*VENDORS.profiles])


@PROFILES
def test_every_key_is_in_the_registry(profile: ExporterProfile) -> None:
    registry = load_registry()
    keys = [key for row in profile.metrics for key in row.keys]
    rows = [key for key in keys if not key.startswith(OPERAND)]
    for key in [*rows, *profile.needs, *profile.instance_keys, *(r.key for r in profile.ratios)]:
        assert registry.metric(key).entity == "gpu"
        registry.point_attributes(key)


@PROFILES
def test_every_throttle_reason_is_one_that_the_registry_allows(profile: ExporterProfile) -> None:
    registry = load_registry()
    reasons = registry.attributes["ofu.throttle.reason"].values
    for key in (key for row in profile.metrics for key in row.keys):
        base, _, reason = key.partition(":")
        assert base not in ("throttle_time", "throttled") or reason in reasons


@PROFILES
def test_every_owner_attribute_is_in_the_registry(profile: ExporterProfile) -> None:
    assert profile.owner.keys() <= load_registry().attributes.keys()


@PROFILES
def test_every_profile_names_its_devices_and_says_what_ofu_means(profile: ExporterProfile) -> None:
    assert profile.labels.uuid or profile.labels.index
    assert len(profile.ofu) > 20
    assert "tensor_active" in profile.needs


@PROFILES
def test_operands_of_ratios_are_read(profile: ExporterProfile) -> None:
    keys = {row.key for row in profile.metrics}
    for ratio in profile.ratios:
        assert {ratio.over, ratio.under} <= keys
    assert set(profile.last_codes.values()) <= keys


@PROFILES
def test_only_a_sum_has_parts_and_only_a_row_with_key_or_bits_is_read(
    profile: ExporterProfile,
) -> None:
    for row in profile.metrics:
        assert (row.over == "sum") == bool(row.by), row.name
        assert bool(row.key) != bool(row.bits), row.name


@PROFILES
def test_only_a_true_measurement_gives_tensor_activity(profile: ExporterProfile) -> None:
    keys = {row.key for row in profile.metrics} | (
        {"tensor_active"} if profile.dcgm_names else set()
    )
    assert ("tensor_active" in keys) == (profile.quality != "busy_proxy")


def test_rows_of_two_profiles_with_one_name_read_different_series() -> None:
    for candidates in VENDORS.candidates.values():
        for one, other in itertools.combinations(candidates, 2):
            if one.profile_id != other.profile_id:
                assert _identities(one).isdisjoint(_identities(other)) or _excludes(one, other)


def _identities(candidate: MetricCandidate) -> set[str]:
    return {*candidate.profile.labels.uuid, *candidate.profile.labels.index}


def _excludes(one: MetricCandidate, other: MetricCandidate) -> bool:
    shared = one.row.where.keys() & other.row.where.keys()
    return any(set(one.row.where[name]).isdisjoint(other.row.where[name]) for name in shared)


@pytest.mark.parametrize(
    ("model", "profile", "share"),
    [
        ("NVIDIA H100 80GB HBM3", "1g.10gb", 1 / 7),
        ("NVIDIA H100 80GB HBM3", "1g.10gb+me", 1 / 7),
        ("NVIDIA H100 80GB HBM3", "7g.80gb", 1.0),
        ("NVIDIA H100 80GB HBM3", "1c.3g.40gb", 3 / 7),
        ("NVIDIA A30", "2g.12gb", 0.5),
        ("NVIDIA A30", "", 1.0),
        ("NVIDIA A30", "9g.1gb", 1.0),
    ],
)
def test_the_share_of_a_mig_profile(model: str, profile: str, share: float) -> None:
    assert VENDORS.mig_share(model, profile) == pytest.approx(share)


@pytest.mark.parametrize(
    ("old", "new", "factor"),
    [
        ("DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_SM_CLOCK_HERTZ", 1e6),
        ("DCGM_FI_DEV_MEM_CLOCK", "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", 1e6),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1e-3),
        ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", 0.01),
        ("DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_MEMORY_UTIL_RATIO", 0.01),
        ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED_BYTES", 2**20),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "DCGM_FI_PROF_TENSOR_UTIL_RATIO", 1),
        ("DCGM_FI_PROF_PIPE_TENSOR_HMMA_ACTIVE", "DCGM_FI_PROF_HMMA_UTIL_RATIO", 1),
    ],
)
def test_a_renamed_dcgm_metric_keeps_its_key_and_changes_its_unit(
    old: str, new: str, factor: float
) -> None:
    names = load_registry().by_dcgm_name
    assert names[old][0] == names[new][0]
    assert names[old][1] / names[new][1] == pytest.approx(factor)


GOOD_PROFILE: Mapping[str, Any] = {
    "title": "An exporter",
    "vendor": "acme",
    "ofu": "as measured",
    "labels": {"uuid": ["uuid"]},
    "metrics": [{"name": "clock", "key": "sm_clock"}],
    "needs": {"tensor_active": "none"},
}


def vendors_with(**profiles: object) -> object:
    return {"relabelled_prefix": "x_", "mig_slices": {"default": 7}, "profiles": profiles}


def without(key: str) -> Mapping[str, Any]:
    return {name: value for name, value in GOOD_PROFILE.items() if name != key}


def test_a_profile_that_is_wrong_is_named_with_its_mistake_and_hides_no_other() -> None:
    wrong = vendors_with(
        good=GOOD_PROFILE,
        short=without("needs"),
        odd={**GOOD_PROFILE, "metrics": [{"name": "clock", "key": 5}]},
        unknown={**GOOD_PROFILE, "metrics": [{"name": "clock", "key": "clok"}]},
        extra={**GOOD_PROFILE, "colour": "red"},
        flat=5,
    )
    with pytest.raises(ConfigError) as caught:
        vendors_of(wrong, load_registry())
    assert [str(problem) for problem in caught.value.problems] == [
        "vendors.yaml: short: the key 'needs' is missing",
        "vendors.yaml: odd: metrics[0].key: expected text, got a whole number",
        "vendors.yaml: unknown: metrics[0].key: no metric 'clok' in registry.yaml",
        "vendors.yaml: extra: unknown key 'colour'",
        "vendors.yaml: flat: expected a mapping, got a whole number",
    ]


def test_a_file_of_profiles_without_a_block_is_refused_as_a_whole() -> None:
    with pytest.raises(ConfigError, match=r"^vendors\.yaml: the key 'mig_slices' is missing$"):
        vendors_of({"relabelled_prefix": "", "profiles": {}}, load_registry())
