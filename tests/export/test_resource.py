"""Which machine an entity is on."""

from __future__ import annotations

import pytest

from otel_ofu.export.resource import known_attributes
from otel_ofu.model import Attribute, Entity

COMMON: dict[str, Attribute] = {
    "service.name": "otel-ofu", "deployment.environment.name": "prod",
    "host.name": "n1", "host.id": "id1", "k8s.node.name": "k1",
}  # fmt: skip
HERE = ["host.id", "host.name", "k8s.node.name"]


def hosts(entity: Entity) -> list[str]:
    known = known_attributes(COMMON, entity)
    assert known["deployment.environment.name"] == "prod"
    return sorted(name for name in known if name in HERE)


@pytest.mark.parametrize(
    "entity",
    [
        Entity("gpu", "G", {"hw.id": "G", "host.name": "n1"}),
        Entity("gpu", "G", {"hw.id": "G"}),
        Entity("node", "n1", {"host.name": "n1"}),
        Entity("job", "7", {"ofu.job.id": "7", "host.name": "n1", "ofu.job.scope": "node"}),
    ],
)
def test_everything_on_this_machine_names_it_alike(entity: Entity) -> None:
    assert hosts(entity) == HERE


def test_a_gpu_elsewhere_has_its_own_host_and_no_id_of_the_agent_s() -> None:
    remote = Entity("gpu", "G", {"hw.id": "G", "host.name": "far"})
    assert hosts(remote) == ["host.name"]
    assert known_attributes(COMMON, remote)["host.name"] == "far"


def test_a_job_over_several_nodes_is_on_none() -> None:
    assert hosts(Entity("job", "7", {"ofu.job.id": "7", "ofu.job.scope": "fleet"})) == []
