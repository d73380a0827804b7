from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_ofu.jobs import JobSettings
from otel_ofu.jobs.settings import KubernetesSettings
from tests.jobs.tree import MakeRig, Rig, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


@pytest.fixture
def make_rig(tree: Tree, tmp_path: Path) -> Iterator[MakeRig]:
    """Nothing of the machine that the tests run on is asked unless a test says so."""
    rigs: list[Rig] = []

    def make(**settings: object) -> Rig:
        pods = {"pod_resources": str(tmp_path / "no.sock"), "pod_logs": str(tmp_path / "no-logs")}
        for key in KubernetesSettings.__struct_fields__:
            if key in settings:
                pods[key] = settings.pop(key)  # type: ignore[assignment]
        kubernetes = KubernetesSettings(**pods)  # type: ignore[arg-type]
        rigs.append(Rig(tree, JobSettings(kubernetes=kubernetes, **settings)))  # type: ignore[arg-type]
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.finder.close()
