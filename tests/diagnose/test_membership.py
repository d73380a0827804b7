"""How far a condition holds: 0 to 1, and unknown where nothing is known."""

import math

import numpy as np
import pytest

from otel_ofu.diagnose import CauseCatalogue
from otel_ofu.diagnose.scoring import membership
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.verdicts import HOLDS, Condition
from tests.diagnose.scene import REGISTRY, Scene, flat

EMPTY = CauseCatalogue()


def share(text: str, **values: float) -> float:
    series = {("gpu0", key): flat(value, 20) for key, value in values.items()}
    scene = Scene(EMPTY, series or {("gpu0", "power"): flat(1.0, 20)})
    question = Condition(parse_condition(text, "gpu", REGISTRY))
    judged = NumpyEngine(scene.store).round([question], scene.now_s).judgements[0]
    found = float(membership(judged)[0])
    assert (found == 1) or judged.verdicts[0] != HOLDS
    return found


def test_what_holds_is_one_and_what_is_far_off_nothing() -> None:
    assert share("ofu < 20%", ofu=0.1) == 1
    assert share("ofu < 20%", ofu=0.5) == 0
    assert share("ofu > 20%", ofu=0.1) == 0


def test_between_them_it_falls_over_a_tenth_of_the_threshold() -> None:
    assert share("ofu < 20%", ofu=0.205) == pytest.approx(0.75, abs=1e-3)
    assert share("ofu > 20%", ofu=0.19) == pytest.approx(0.5, abs=1e-3)


def test_against_another_value_the_band_is_narrow() -> None:
    assert share("ofu < tensor_active", ofu=0.515, tensor_active=0.5) == pytest.approx(0, abs=1e-3)
    assert share("ofu < tensor_active", ofu=0.505, tensor_active=0.5) > 0.6


def test_a_threshold_of_nothing_has_no_band() -> None:
    assert share("power > 0", power=0.0) == 0
    assert share("power > 0", power=1e-6) == 1


def test_all_of_is_the_least_and_any_of_the_most() -> None:
    assert share("ofu < 20% and power > 100", ofu=0.21, power=200) == pytest.approx(0.5, abs=1e-3)
    assert share("ofu < 20% or power > 100", ofu=0.21, power=50) == pytest.approx(0.5, abs=1e-3)


def test_the_opposite_holds_where_the_condition_does_not() -> None:
    assert share("not ofu < 20%", ofu=0.21) == 1
    assert share("not ofu < 20%", ofu=0.19) == pytest.approx(0.5, abs=1e-3)
    assert share("not (ofu < 20% or power > 100)", ofu=0.3, power=50) == 1
    assert share("not (ofu < 20% and power > 100)", ofu=0.1, power=200) == 0


def test_unknown_parts_matter_only_where_they_could_decide() -> None:
    assert math.isnan(share("ofu < 20%"))
    assert share("ofu < 20% and power > 100", power=10) == 0
    assert math.isnan(share("ofu < 20% and power > 100", power=200))
    assert share("ofu < 20% or power > 100", power=200) == 1
    assert math.isnan(share("ofu < 20% or power > 100", power=10))


def test_it_never_rises_as_a_value_moves_away() -> None:
    shares = [share("ofu < 20%", ofu=value) for value in np.linspace(0, 0.3, 31)]
    assert shares == sorted(shares, reverse=True)
    assert set(shares) > {0.0, 1.0}
