"""What a user may say about job identity: the block `jobs`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, get_args

import msgspec

from otel_ofu.files.settings import (
    CheckContext,
    Duration,
    Mistake,
    ParsedText,
    QuantityRange,
    Settings,
)
from otel_ofu.net.settings import parse_url
from otel_ofu.net.tls import PemFile

Provider = Literal[
    "environment",
    "slurm",
    "k8s",
    "lsf",
    "pbs",
    "mapping_dir",
    "source",
    "ray",
    "torchrun",
    "mpi",
    "container",
]
PROVIDERS: tuple[Provider, ...] = get_args(Provider)
"""What may name a GPU's owner, in the default order: schedulers before what runs inside a job."""


def _parse_variable(name: str) -> None:
    if not name or "=" in name or "\0" in name:
        raise ValueError(f"{name!r} is not the name of an environment variable")


class KubernetesSettings(Settings, frozen=True, kw_only=True):
    """`pod_labels`: label of a pod -> attribute; `ofu.job.id` names the job; needs `kubelet_url`.

    Paths that do not exist are not read.
    """

    pod_resources: str = "/var/lib/kubelet/pod-resources/kubelet.sock"
    pod_logs: str = "/var/log/pods"
    pod_labels: dict[str, str] = {}
    kubelet_url: Annotated[str, ParsedText(parse_url)] = ""
    kubelet_token_file: str = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
    kubelet_ca_file: PemFile = ""

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - text alone
        if self.pod_labels and not self.kubelet_url:
            yield ("pod_labels",), "needs kubelet_url"


class JobSettings(Settings, frozen=True, kw_only=True):
    """`providers`: the first that knows a job id names the job; those left out are not read.

    `environment`: variable -> attribute; one that stands for `ofu.job.id` names the job.
    `personal`: whether `slurm.user` and `slurm.account` are sent.
    `trust_pids`: the driver's process ids are those of this /proc, though that cannot be checked.
    """

    enabled: bool = True
    providers: list[Provider] = msgspec.field(default_factory=lambda: [*PROVIDERS])
    interval: Annotated[Duration, QuantityRange(Duration(1), Duration(86400))] = Duration(30)
    environment: dict[Annotated[str, ParsedText(_parse_variable)], str] = {}
    personal: bool = False
    trust_pids: bool = False
    mapping_dirs: list[str] = []
    kubernetes: KubernetesSettings = KubernetesSettings()

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - text alone
        for index, provider in enumerate(self.providers):
            if provider in self.providers[:index]:
                yield ("providers", index), f"the provider {provider!r} is listed twice"
