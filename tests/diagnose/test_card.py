"""What people read."""

import math

from msgspec.structs import replace

from otel_ofu.diagnose import card, explain_finding
from otel_ofu.model import RankedCause
from tests.diagnose.scene import START_S, STEP_S, Scene, cause, causes, flat

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


def test_numbers_have_two_or_three_digits() -> None:
    told = replace(scene().diagnose("gpu0"), facts={"gpus": 1024.0, "gpu_hours_lost": 0.1934})
    assert "GPUs 1024, GPU-hours lost so far 0.19\n" in card(told)
    told = replace(told, facts={"gpus": 8.0, "gpu_hours_lost": 123.456})
    assert "GPUs 8, GPU-hours lost so far 123\n" in card(told)


def test_a_line_is_not_broken_within_a_word_with_a_hyphen() -> None:
    told = scene().diagnose("gpu0")
    for width in range(40, 100):
        for text in (card(told, width=width), explain_finding(told, width=width)):
            assert not any(line.endswith("-") for line in text.splitlines())


def test_a_command_is_never_broken() -> None:
    command = "sudo cat /proc/<pid>/environ | tr '\\0' '\\n' | grep -E 'DEBUG: 1|BLOCKING'"
    step = f"See with what a process on the GPU was started: {command}"
    named = RankedCause("x", "X", 0.9, next_steps=[step])
    for write in (card, explain_finding):
        lines = write(replace(scene().diagnose("gpu0"), causes=[named]), width=80).splitlines()
        assert f"        {command}" in lines
        assert "  next: See with what a process on the GPU was started:" in lines


def test_the_commands_of_profiling_are_not_broken_either() -> None:
    told = Scene(causes(cause("low", LOW)), {("gpu0", "tensor_active"): flat(0.6)})
    text = card(told.diagnose("gpu0"), width=60)
    assert "\n        nsys profile -t cuda,nvtx,osrt -d 30 -o ofu <command>\n" in text
    assert "next: see what Python does: py-spy dump --pid <pid>" in text


def test_a_next_step_names_the_flags_that_are_set_and_no_others() -> None:
    flags = "flags: [TORCH_DISTRIBUTED_DEBUG, NCCL_DEBUG, CUDA_LAUNCH_BLOCKING], weight: 0.5"
    book = causes(cause("switch", flags, LOW, next='["Start without it: unset {flags}", "Look"]'))
    low = {("gpu0", "tensor_active"): flat(0.1)}
    there = {"TORCH_DISTRIBUTED_DEBUG": 1, "NCCL_DEBUG": 0, "CUDA_LAUNCH_BLOCKING": 1}
    seen = {("gpu0", f"flag:{name}"): flat(is_set) for name, is_set in there.items()}
    told = Scene(book, low | seen)
    steps = told.diagnose("gpu0").causes[0].next_steps
    assert steps == ("Start without it: unset TORCH_DISTRIBUTED_DEBUG CUDA_LAUNCH_BLOCKING", "Look")
    assert Scene(book, low).diagnose("gpu0").causes[0].next_steps == ("Look",)
