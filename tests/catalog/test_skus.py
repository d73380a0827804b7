from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_ofu.catalog.skus import Sku, load_skus

SKUS = load_skus()

PUBLISHED = [
    (sku, precision, peak)
    for sku in SKUS.by_id.values()
    for precision, peak in sku.peak_tflops.items()
]


def _deviation(sku: Sku, precision: str, peak_tflops: float) -> float:
    computed = sku.peak_flops(precision)
    assert computed is not None
    return abs(computed / (peak_tflops * 1e12) - 1)


@pytest.mark.parametrize(
    ("sku", "precision", "peak"), PUBLISHED, ids=[f"{s.id}-{p}" for s, p, _ in PUBLISHED]
)
def test_sms_times_flops_times_clock_is_the_published_peak(
    sku: Sku, precision: str, peak: float
) -> None:
    excused = precision in sku.peak_exceptions
    assert (_deviation(sku, precision, peak) > 0.01) == excused


@pytest.mark.parametrize("sku", SKUS.by_id.values(), ids=list(SKUS.by_id))
def test_every_model_has_a_published_peak_for_each_of_its_formats_and_a_source(sku: Sku) -> None:
    assert set(sku.peak_tflops) == set(sku.flops_per_clock_per_sm)
    assert sku.source
    assert sku.default_precision in sku.flops_per_clock_per_sm


@pytest.mark.parametrize("sku", SKUS.by_id.values(), ids=list(SKUS.by_id))
def test_the_reference_clock_is_none_that_the_device_cannot_reach(sku: Sku) -> None:
    if sku.max_sm_clock_mhz is not None:
        assert max(sku.reference_clock_mhz.values()) <= sku.max_sm_clock_mhz


@pytest.mark.parametrize("sku", SKUS.by_id.values(), ids=list(SKUS.by_id))
def test_doubts_and_exceptions_name_fields_that_are_there(sku: Sku) -> None:
    assert set(sku.unverified) <= set(sku.__struct_fields__)
    assert set(sku.peak_exceptions) <= set(sku.peak_tflops)


# Names that drivers report, with the dense peak in the default precision that must come out.
NAMES = [
    ("Tesla V100-SXM2-16GB", "v100-sxm2", 125),
    ("Tesla V100-SXM2-32GB", "v100-sxm2", 125),
    ("Tesla V100-PCIE-32GB", "v100-pcie", 112),
    ("Tesla V100S-PCIE-32GB", "v100s-pcie", 130),
    ("Tesla T4", "t4", 65),
    ("NVIDIA T4", "t4", 65),
    ("NVIDIA A100-SXM4-40GB", "a100-sxm4", 312),
    ("NVIDIA A100-SXM4-80GB", "a100-sxm4", 312),
    ("A100-SXM4-40GB", "a100-sxm4", 312),
    ("NVIDIA A100-PCIE-40GB", "a100-pcie", 312),
    ("NVIDIA A100 80GB PCIe", "a100-pcie", 312),
    ("NVIDIA A800-SXM4-80GB", "a800-sxm4", 312),
    ("NVIDIA A800 80GB PCIe", "a800-pcie", 312),
    ("NVIDIA A30", "a30", 165),
    ("NVIDIA A2", "a2", 18),
    ("NVIDIA A10", "a10", 125),
    ("NVIDIA A10G", "a10g", 70),
    ("NVIDIA A40", "a40", 149.7),
    ("NVIDIA RTX A6000", "rtx-a6000", 154.8),
    ("NVIDIA L4", "l4", 121),
    ("NVIDIA L40", "l40", 181),
    ("NVIDIA L40S", "l40s", 362),
    ("NVIDIA GeForce RTX 4090", "rtx-4090", 165.2),
    ("NVIDIA H100 80GB HBM3", "h100-sxm5", 989.4),
    ("NVIDIA H100", "h100-sxm5", 989.4),
    ("NVIDIA H100 PCIe", "h100-pcie", 756),
    ("NVIDIA H100 NVL", "h100-nvl", 835.5),
    ("NVIDIA H200", "h200-sxm", 989.4),
    ("NVIDIA H200 NVL", "h200-nvl", 836),
    ("NVIDIA GH200 480GB", "gh200", 989.4),
    ("NVIDIA GH200 144G HBM3e", "gh200", 989.4),
    ("NVIDIA H800", "h800-sxm", 989.4),
    ("NVIDIA H800 PCIe", "h800-pcie", 756),
    ("NVIDIA H20", "h20", 148),
    ("NVIDIA B200", "b200", 2250),
    ("NVIDIA B300 SXM6 AC", "b300", 2250),
    ("NVIDIA GB200", "gb200", 2500),
    ("NVIDIA GB300", "gb300", 2500),
    (
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "rtx-pro-6000-blackwell-server",
        504,
    ),
    (
        "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
        "rtx-pro-6000-blackwell-workstation",
        504,
    ),
    (
        "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
        "rtx-pro-6000-blackwell-max-q",
        438.9,
    ),
    ("NVIDIA GeForce RTX 5090", "rtx-5090", 209.5),
    ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada", 364.2),
    ("NVIDIA GeForce RTX 3090", "rtx-3090", 71.2),
    ("NVIDIA GeForce RTX 4080", "rtx-4080", 97.5),
    ("NVIDIA GB10", "gb10", 125),
    ("NVIDIA L20", "l20", 119.5),
    ("NVIDIA H100 64GB HBM2", "h100-sxm-64gb", 989.4),
    ("NVIDIA H100 80GB HBM2e", "h100-pcie", 756),
    ("NVIDIA T4G", "t4", 65),
    ("Tesla V100-SXM3-32GB", "v100-sxm3", 125),
    ("AMD Instinct MI210", "mi210", 181),
    ("AMD INSTINCT MI250 (MCM) OAM AC MBA", "mi250", 181),
    ("AMD Instinct MI250X", "mi250x", 191.5),
    ("AMD Instinct MI300A", "mi300a", 980.6),
    ("Instinct MI300X", "mi300x", 1307.4),
    ("AMD Instinct MI300X OAM", "mi300x", 1307.4),
    ("AMD Instinct MI300X VF", "mi300x", 1307.4),
    ("Aqua Vanjaram [Instinct MI300X]", "mi300x", 1307.4),
    ("AMD Instinct MI325X", "mi325x", 1307.4),
    ("AMD Instinct MI350X", "mi350x", 2306.9),
    ("AMD Instinct MI355X", "mi355x", 2516.6),
    ("910A-Ascend-V1", "ascend-910a", 262.1),
    ("910ProA-Ascend-V1", "ascend-910proa", 288.4),
    ("910B-Ascend-V1", "ascend-910b", 221.2),
    ("910B1-Ascend-V1", "ascend-910b1", 363.7),
    ("910B2C-Ascend-V1", "ascend-910b2", 353.9),
    ("910B3-Ascend-V1", "ascend-910b3", 294.9),
    ("910B3", "ascend-910b3", 294.9),
    ("Ascend910B4-1", "ascend-910b4", 245.8),
    ("Ascend910_9392", "ascend-a3", 353.9),
]


@pytest.mark.parametrize(("name", "id_", "peak_tflops"), NAMES)
def test_a_reported_name_gives_its_model_and_dense_peak(
    name: str, id_: str, peak_tflops: float
) -> None:
    sku = SKUS.match(name)
    assert sku is not None
    assert sku.id == id_
    assert sku.peak_flops(sku.default_precision) == pytest.approx(peak_tflops * 1e12, rel=0.01)


@pytest.mark.parametrize(("name", "id_", "_peak"), NAMES)
def test_case_separators_order_and_maker_do_not_matter(name: str, id_: str, _peak: float) -> None:
    bare = name.removeprefix("NVIDIA ").removeprefix("Tesla ")
    spellings = [
        name.lower(),
        name.upper(),
        name.replace(" ", "_"),
        name.replace("-", " "),
        bare,
        f"Tesla {bare}",
        f"NVIDIA {bare}",
        " ".join(reversed(name.split())),
        f"  {name}\t",
    ]
    assert {spelling: _id(spelling) for spelling in spellings} == dict.fromkeys(spellings, id_)


@pytest.mark.parametrize(("name", "id_", "_peak"), NAMES)
def test_a_mig_instance_is_named_after_its_parent(name: str, id_: str, _peak: float) -> None:
    assert _id(f"{name} MIG 1g.10gb") == id_
    assert _id(f"{name} MIG 1c.2g.20gb+me") == id_


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "-_-",
        "NVIDIA",
        "NVIDIA Tesla",
        "MIG 1g.5gb",
        "80GB",
        "GPU",
        "NVIDIA H1000",
        "NVIDIA H100 CNX",
        "NVIDIA H100X",
        "NVIDIA A100X",
        "NVIDIA A100-SXM-64GB",
        "NVIDIA L400",
        "NVIDIA A10-24Q",
        "GRID A100-10C",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 5090 Laptop GPU",
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA GeForce RTX 5090 with Max-Q Design",
        "NVIDIA RTX PRO 6000 Blackwell",
        "NVIDIA RTX A6000 Laptop GPU",
        "NVIDIA RTX 6000",
        "NVIDIA GeForce RTX 4080 SUPER",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA H100 96GB HBM2",
        "NVIDIA GB200 NVL72",
        "NVIDIA Corporation GH100 [H100 PCIe]",
        "AMD Instinct MI308X",
        "AMD Instinct MI300",
        "102-G30211-00",
        "910B9-Ascend-V1",
        "910B3-Ascend-V2",
        "310P3-Ascend-V1",
        "H100 or H200",
        "\uff28\uff11\uff10\uff10",
        "x" * 1_000_000,
    ],
)
def test_an_unknown_name_gives_nothing_rather_than_the_nearest(name: str) -> None:
    assert SKUS.match(name) is None


@given(st.text())
def test_no_text_breaks_the_match(name: str) -> None:
    sku = SKUS.match(name)
    assert sku is None or sku.id in SKUS.by_id


@given(st.sampled_from(NAMES), st.text("abcdefghijklmnopqrstuvwxyz", min_size=1))
def test_one_more_word_makes_it_another_model(known: tuple[str, str, float], word: str) -> None:
    sku = SKUS.match(f"{known[0]} x{word}")
    assert sku is None


def test_fp64_has_its_own_reference_clock_where_the_data_sheet_uses_one() -> None:
    h100 = SKUS.by_id["h100-sxm5"]
    assert h100.reference_clock_hz() == 1.83e9
    assert h100.reference_clock_hz("fp8") == 1.83e9
    assert h100.reference_clock_hz("fp64") == 1.98e9


def test_a_format_without_tensor_cores_has_no_peak() -> None:
    assert SKUS.by_id["a100-sxm4"].peak_flops("fp8") is None
    assert SKUS.by_id["v100-sxm2"].peak_flops("bf16") is None
    assert SKUS.by_id["h100-sxm5"].peak_flops("mixed") is None


def _id(name: str) -> str | None:
    sku = SKUS.match(name)
    return sku.id if sku else None
