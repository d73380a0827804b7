"""Which machine this is, as resource attributes; what a user gives goes before it.

Enters: the environment and the files of the machine. Leaves: `host.name`, and where they are known
`host.id` and `k8s.node.name`.
Source: OpenTelemetry semantic conventions, host and k8s resources.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

HOST_NAME, HOST_ID, NODE_NAME = "host.name", "host.id", "k8s.node.name"
_MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
_CONTAINER_MARKS = (".dockerenv", "run/.containerenv")


def detect_host(environ: Mapping[str, str], host: str, root: Path = Path("/")) -> dict[str, str]:
    """`host` is what the operating system calls this machine.

    In a pod that is the name of the pod: there the node has the name that the manifest passes on,
    in K8S_NODE_NAME or NODE_NAME.
    """
    in_pod = "KUBERNETES_SERVICE_HOST" in environ
    node = environ.get("K8S_NODE_NAME", "").strip()
    if in_pod:
        node = node or environ.get("NODE_NAME", "").strip()
    found = {HOST_NAME: node if in_pod and node else host}
    if node:
        found[NODE_NAME] = node
    if not in_pod and (machine_id := _machine_id(root)):
        found[HOST_ID] = machine_id
    return found


def _machine_id(root: Path) -> str:
    """Empty in a container: the file there is of the image, the same on every machine."""
    if any((root / mark).exists() for mark in _CONTAINER_MARKS):
        return ""
    for path in _MACHINE_IDS:
        try:
            text = (root / path).read_text("ascii").strip()
        except (OSError, UnicodeDecodeError):
            continue
        if re.fullmatch(r"[0-9a-f]{32}", text):
            return text
    return ""
