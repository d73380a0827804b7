"""What a user may choose about job identity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROVIDERS = (
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
)
"""Who may say whose GPU it is, in the default order: schedulers before what runs inside a job."""


@dataclass(frozen=True, slots=True)
class JobSettings:
    """`providers`: the first that knows a job id names the job; those left out are not asked.

    `environment`: variable -> attribute; one that stands for `ofu.job.id` names the job.
    `pod_labels`: label of a pod -> attribute, `ofu.job.id` likewise; needs `kubelet_url`.
    `personal`: whether `slurm.user` and `slurm.account` are told.
    `trust_pids`: the driver's process ids are those of this /proc, though that cannot be checked.
    `budget_s`: the longest that `JobFinder.owners` waits; `call_timeout_s`: that of one request.
    Paths that do not exist are not asked.
    """

    providers: tuple[str, ...] = PROVIDERS
    interval_s: float = 30.0
    environment: Mapping[str, str] = field(default_factory=dict)
    personal: bool = False
    trust_pids: bool = False
    pod_resources: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    pod_logs: Path = Path("/var/log/pods")
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    kubelet_url: str = ""
    kubelet_token_file: str = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105 - a path
    kubelet_ca_file: str = ""
    mapping_dirs: tuple[Path, ...] = ()
    budget_s: float = 1.0
    call_timeout_s: float = 2.0

    def __post_init__(self) -> None:
        """ValueError names what is wrong and what is allowed."""
        unknown = sorted(set(self.providers) - set(PROVIDERS))
        if unknown:
            raise ValueError(f"no provider {', '.join(unknown)}; there are: {', '.join(PROVIDERS)}")
        if len(set(self.providers)) != len(self.providers):
            raise ValueError(f"a provider stands twice in {', '.join(self.providers)}")
        if not self.interval_s >= 1:
            raise ValueError(f"interval {self.interval_s:g} s; at least 1 s")
        for name in self.environment:
            if not name or "=" in name or "\0" in name:
                raise ValueError(f"{name!r} is no name of an environment variable")
        if self.kubelet_url and not self.kubelet_url.startswith(("http://", "https://")):
            raise ValueError(f"kubelet_url {self.kubelet_url!r}; http:// or https://")
