"""What the path of a cgroup names: a job of a scheduler, a pod, a container.

Enters: the lines of /proc/PID/cgroup. Leaves: `Cgroup`.
Sources: Slurm cgroup/v1 and v2 plug-ins; kubelet's cgroupfs and systemd drivers with docker,
containerd and CRI-O; IBM Spectrum LSF and OpenPBS cgroup hooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_ofu.files.procfs import CgroupLine

# v1: /slurm[_host]/uid_N/job_N/step_X/task_N
# v2: /system.slice/[host_]slurmstepd.scope/job_N/step_X/user/task_N
# Since 26.05 an id in Crockford's base 32 stands in place of job_N.
SLUID = "s[0-9A-HJKMNP-TV-Z]{13}"
_SLURM = re.compile(
    rf"(?:/slurm[^/]*/uid_\d+|slurmstepd\.scope)/(?:job_(\d+)|({SLUID}))(?:/step_([^/]+))?(?:/|$)"
)
_POD = re.compile(r"pod([0-9a-f]{8}[0-9a-f_-]{24,28})(?=[/.:]|$)")
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?=[/.]|$)")
_LSF = re.compile(r"/lsf/[^/]+/job\.(\d+)(?=[./]|$)")
_PBS = re.compile(r"/pbs_jobs\.service/jobid/([^/]+)")


@dataclass(frozen=True, slots=True)
class Cgroup:
    """Where a process runs, as far as its cgroup names a known thing; "" where it does not.

    `scope` is equal for processes of one job, pod or container; where nothing is known, of one
    cgroup. `folders` are where the cgroup may lie below the root of the hierarchies.
    """

    scope: str = ""
    known: bool = False
    slurm_job: str = ""
    sluid: str = ""
    step: str = ""
    pod_uid: str = ""
    container_id: str = ""
    lsf_job: str = ""
    pbs_job: str = ""
    folders: tuple[str, ...] = ()


def cgroup_of(lines: Sequence[CgroupLine]) -> Cgroup:
    paths = [line.path for line in lines]
    slurm = _first(_SLURM, paths)
    pod = _last(_POD, paths).replace("_", "-")
    container = _last(_CONTAINER, paths)
    lsf, pbs = _last(_LSF, paths), _last(_PBS, paths)
    job, sluid, step = slurm.groups(default="") if slurm else ("", "", "")
    # A job that runs inside a container, and a container that runs inside a job, are both one.
    scope = f"{job}|{sluid}|{pod}|{container}|{lsf}|{pbs}"
    known = bool(scope.strip("|"))
    return Cgroup(
        scope=scope if known else "|".join(paths),
        known=known,
        slurm_job=job,
        sluid=sluid,
        step=step,
        pod_uid=pod,
        container_id=container,
        lsf_job=lsf,
        pbs_job=pbs,
        folders=tuple(_folders(lines)) if known else (),
    )


def _first(pattern: re.Pattern[str], paths: Sequence[str]) -> re.Match[str] | None:
    return next((found for path in paths if (found := pattern.search(path))), None)


def _last(pattern: re.Pattern[str], paths: Sequence[str]) -> str:
    """The innermost one: a node may itself be a container."""
    for path in paths:
        found = pattern.findall(path)
        if found:
            return str(found[-1])
    return ""


def _folders(lines: Sequence[CgroupLine]) -> Iterator[str]:
    """v2, v2 beside v1, v1. A path that leaves the root of our namespace cannot be reached."""
    for line in lines:
        if line.path == "/" or "/.." in line.path:
            continue
        if line.controllers:
            yield line.controllers.removeprefix("name=") + line.path
        else:
            yield line.path.lstrip("/")
            yield "unified" + line.path
