from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_ofu.jobs import JobSettings
from tests.jobs.tree import MakeRig, Rig, Tree
from tests.waiting import HANGS_S


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def make_rig(tree: Tree, tmp_path: Path) -> Iterator[MakeRig]:
    """Nothing of the machine that the tests run on is asked unless a test says so."""
    rigs: list[Rig] = []

    def make(**settings: object) -> Rig:
        nowhere = {
            "pod_resources": tmp_path / "no.sock",
            "pod_logs": tmp_path / "no-logs",
            "budget_s": HANGS_S,
            "call_timeout_s": HANGS_S,
        }
        rigs.append(Rig(tree, JobSettings(**{**nowhere, **settings})))  # type: ignore[arg-type]
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.finder.close()
