"""The shipped causes of a job whose MFU and OFU are apart, from the ratio of the two alone."""

from __future__ import annotations

import pytest

from otel_ofu.diagnose import load_causes
from otel_ofu.files.installed import shipped
from tests.diagnose.scene import REGISTRY, Scene, Series, flat

STEPS = "accumulation_uncounted"


def first(mfu: list[float | None], ofu: float = 0.41) -> str:
    series: Series = {
        ("job", "mfu"): mfu,
        ("job", "job_ofu"): flat(ofu),
        ("gpu0", "ofu"): flat(ofu),
        ("gpu0", "tensor_active"): flat(0.45),
    }
    scene = Scene(load_causes(shipped("rules") / "causes.yaml", REGISTRY), series)
    listed = (STEPS, "flops_undercount", "recomputation")
    return scene.diagnose("job", *listed).causes[0].id


@pytest.mark.parametrize("steps", [3, 4, 8, 16])
@pytest.mark.parametrize("padding", [0.0, 0.05])
def test_a_constant_whole_fraction_is_accumulation_steps_not_counted(
    steps: int, padding: float
) -> None:
    assert first(flat(0.41 / steps * (1 - padding))) == STEPS


@pytest.mark.parametrize("ratio", [0.58, 0.5, 0.42, 0.29, 0.18])
def test_another_ratio_is_an_undercount_of_some_other_kind(ratio: float) -> None:
    assert first(flat(0.41 * ratio)) == "flops_undercount"


def test_a_ratio_that_has_just_become_a_fraction_is_not_named_with_certainty() -> None:
    constant, changed = flat(0.41 / 4), [*flat(0.24, 35), *flat(0.41 / 4, 25)]
    scores = []
    for mfu in (constant, changed):
        series: Series = {
            ("job", "mfu"): mfu,
            ("job", "job_ofu"): flat(0.41),
            ("gpu0", "ofu"): flat(0.41),
        }
        scene = Scene(load_causes(shipped("rules") / "causes.yaml", REGISTRY), series)
        causes = scene.diagnose("job", STEPS).causes
        scores.append(max((c.score for c in causes if c.id == STEPS), default=0.0))
    assert scores[0] > scores[1]
