"""What is known of the machine without being given."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.app.hosts import detect_host

ID = "0123456789abcdef0123456789abcdef"
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "machine-id").write_text(f"{ID}\n")
    return tmp_path


def test_a_machine_has_its_name_and_its_id(root: Path) -> None:
    assert detect_host({}, "n1", root) == {"host.name": "n1", "host.id": ID}


def test_in_a_pod_the_machine_is_the_node_and_the_id_of_the_image_is_not_used(root: Path) -> None:
    found = detect_host({**POD, "NODE_NAME": "gpu-3"}, "otel-ofu-x7k2p", root)
    assert found == {"host.name": "gpu-3", "k8s.node.name": "gpu-3"}
    assert detect_host(POD, "otel-ofu-x7k2p", root) == {"host.name": "otel-ofu-x7k2p"}


def test_outside_of_pods_only_the_variable_that_is_meant_so_names_a_node(root: Path) -> None:
    found = detect_host({"NODE_NAME": "ci", "K8S_NODE_NAME": "k7"}, "n1", root)
    assert (found["host.name"], found["k8s.node.name"]) == ("n1", "k7")


def test_a_container_has_no_id_of_its_machine(root: Path) -> None:
    (root / ".dockerenv").touch()
    assert detect_host({}, "c0ffee", root) == {"host.name": "c0ffee"}


@pytest.mark.parametrize("text", ["", "uninitialized\n", "x" * 32, "\u00e9"])
def test_a_file_that_holds_no_id_gives_none(root: Path, text: str) -> None:
    (root / "etc" / "machine-id").write_text(text, "utf-8")
    assert "host.id" not in detect_host({}, "n1", root)
