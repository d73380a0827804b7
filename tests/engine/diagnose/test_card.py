"""What people read."""

import math

from otel_ofu.engine.diagnose import card, explain_finding
from tests.engine.diagnose.scene import START_S, STEP_S, Scene, cause, causes, flat

FLAG = "flags: [TORCH_DISTRIBUTED_DEBUG], weight: 1"
LOW = 'when: "avg(tensor_active, 5m) < 20%", weight: 0.9'
LINKS = 'when: "avg(nvlink_tx, 5m) < 1e9", weight: 0.2'
PAST = 'when: "avg(ofu, 5m) < 50% * avg(ofu, 1h offset 15m)", weight: 0.5'


def scene() -> Scene:
    fell = [*flat(0.44, 200), *flat(0.1, 24)]
    return Scene(
        causes(
            cause("debug_flag", FLAG, LOW, LINKS, PAST,
                  remark="A switch.", next='["Unset it: unset X"]', link="https://example.org/x")
        ),
        {
            ("gpu0", "ofu"): fell,
            ("gpu0", "tensor_active"): fell,
            ("gpu0", "gpu_util"): flat(0.99, 224),
            ("gpu0", "flag:TORCH_DISTRIBUTED_DEBUG"): [*flat(0, 196), *flat(1, 28)],
        },
    )  # fmt: skip


def test_a_card_says_what_why_since_when_and_what_to_do() -> None:
    text = card(scene().diagnose("gpu0"))
    assert "WARNING Low on gpu0" in text
    assert "OFU 10%, before 44%, GPU utilization 99%" in text
    assert "since 01:40 UTC, 2m after TORCH_DISTRIBUTED_DEBUG appeared" in text
    assert "1. debug_flag happened [debug_flag 0.9" in text
    assert "+ TORCH_DISTRIBUTED_DEBUG is set" in text
    assert "+ avg(tensor_active, 5m) = 10% (< 20%)" in text
    assert "? not checked: avg(nvlink_tx, 5m) < 1000000000" in text
    assert "next: Unset it: unset X" in text
    assert len(text.splitlines()) < 20
    assert max(map(len, text.splitlines())) <= 100


def test_the_date_of_the_change_is_a_fact() -> None:
    told = scene().diagnose("gpu0")
    assert math.isclose(told.facts["began_s"], START_S + 200 * STEP_S, abs_tol=90)
    assert told.facts["gpu_hours_lost"] > 0.1
    assert told.facts["ofu_before"] > told.facts["ofu"]


def test_explaining_tells_all_of_it() -> None:
    text = explain_finding(scene().diagnose("gpu0"))
    assert "50% * avg(ofu, 1h offset 15m) = 22%" in text
    assert "remark: A switch." in text
    assert "see: https://example.org/x" in text


def test_without_a_cause_the_card_says_so_and_what_to_profile() -> None:
    told = Scene(causes(cause("low", LOW)), {("gpu0", "tensor_active"): flat(0.6)})
    text = card(told.diagnose("gpu0"))
    assert "no known cause fits" in text
    assert "nsys profile" in text


def test_an_end_is_one_short_card() -> None:
    one = scene()
    one.diagnose("gpu0")
    text = card(one.diagnose("gpu0", kind="resolved"))
    assert text.splitlines()[1] == "  over after 10m"
    assert len(text.splitlines()) == 2
