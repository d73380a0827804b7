from __future__ import annotations

import pytest

from otel_ofu.model import GapReason
from tests.evidence.flags.rig import Rig
from tests.evidence.tree import Tree, gpu

P2P = "NCCL_P2P_DISABLE"
PASSWD = "root:x:0:0:root:/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\n"


def test_the_systems_file_in_the_container_is_read(tree: Tree) -> None:
    tree.process(7, {})
    tree.inside(7, "/etc/nccl.conf", f"# {P2P}=0\n {P2P} = 1 \nNCCL_NET=Socket\nOTHER=1\n")
    assert Rig(tree).seen() == {P2P, "NCCL_NET"}


@pytest.mark.parametrize(
    ("environment", "user", "system", "seen"),
    [
        ({}, "1", "0", True),
        ({}, "0", "1", False),
        ({P2P: "0"}, "1", "1", False),
        ({P2P: "1"}, "0", "0", True),
    ],
)
def test_the_environment_comes_before_the_user_and_the_user_before_the_system(
    tree: Tree, environment: dict[str, str], user: str, system: str, *, seen: bool
) -> None:
    tree.process(7, environment)
    tree.inside(7, "/etc/passwd", PASSWD)
    tree.inside(7, "/home/me/.nccl.conf", f"{P2P}={user}\n")
    tree.inside(7, "/etc/nccl.conf", f"{P2P}={system}\n")
    assert (P2P in Rig(tree).seen()) is seen


def test_a_named_file_takes_the_place_of_the_users(tree: Tree) -> None:
    tree.process(7, {"NCCL_CONF_FILE": "/my/conf"})
    tree.inside(7, "/etc/passwd", PASSWD)
    tree.inside(7, "/home/me/.nccl.conf", f"{P2P}=1\n")
    assert Rig(tree).seen() == set()
    tree.inside(7, "/my/conf", f"{P2P}=1\n")
    assert Rig(tree).seen() == {P2P}


def test_other_variables_are_not_taken_from_the_file(tree: Tree) -> None:
    tree.process(7, {})
    tree.inside(7, "/etc/nccl.conf", "CUDA_LAUNCH_BLOCKING=1\n")
    assert Rig(tree).seen() == set()


def test_a_file_that_cannot_be_read_is_a_gap_for_nccl_alone(tree: Tree) -> None:
    folder = tree.process(7, {})
    (folder / "root").rmdir()
    (folder / "root").symlink_to("root")  # cannot be opened, by root either
    flags = Rig(tree).scan().devices[gpu(0)]
    assert flags.gaps[f"flag:{P2P}"].reason is GapReason.NOT_PERMITTED
    assert flags.values["flag:CUDA_LAUNCH_BLOCKING"] == 0.0


@pytest.mark.parametrize("text", ["", "=\n", "NCCL_P2P_DISABLE\n", "\0" * 5000, "x" * 200_000])
def test_odd_files_say_nothing(tree: Tree, text: str) -> None:
    tree.process(7, {})
    tree.inside(7, "/etc/nccl.conf", text)
    assert Rig(tree).seen() == set()
