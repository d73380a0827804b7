"""A real Slurm on this machine: a controller and two nodes with four GPUs each, on loopback.

In: a working folder and whether jobs are confined to their devices. Out: a cluster that takes jobs,
and what the processes of the jobs have. The GPUs are character nodes without a driver. Needs root.
"""

from __future__ import annotations

import os
import socket
import stat
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.peers.child import HOST, Child, PeerError, free_ports
from tests.peers.debian import SLURM
from tests.waiting import HANGS_S, wait_until

GPUS = range(4)
CGROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("devices", "freezer")
"""Of cgroup v1, as far as Slurm uses them here."""
_NVIDIA_MAJOR = 195  # Source: Linux devices.txt
_LONGEST_JOB_S = 900
"""Tasks end by themselves if nobody ends them."""

PROBE = """#!/bin/sh
# Writes what this process has, then stays. The system refuses a device that is another job's; one
# that is this job's lacks nothing but a driver.
out={folder}/$1.$$
{{
  echo "PID=$$"
  env | grep -E '^(SLURM|CUDA_VISIBLE_DEVICES)'
  for number in 0 1 2 3; do
    (: < {folder}/gpu$number) 2>&1 | grep -q 'not permitted' || echo "OPENS_$number=1"
  done
}} > $out.part
mv $out.part $out
exec sleep {longest_s}
"""

BATCH = """#!/bin/sh
[ "$1" = - ] && shift && exec "$@"
exec {probe} "$1"
"""

CONF = """
ClusterName=peer
SlurmctldHost={host}({address})
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
MpiDefault=none
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=1
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/{task}
KillWait=1
NodeName={nodes[0]} NodeHostname={host} NodeAddr={address} Port={ports[1]} CPUs=8 Gres=gpu:4
NodeName={nodes[1]} NodeHostname={host} NodeAddr={address} Port={ports[2]} CPUs=8 Gres=gpu:4
PartitionName=first Nodes=ALL Default=YES State=UP
PartitionName=second Nodes=ALL State=UP
"""

CGROUP_CONF = """
CgroupPlugin=cgroup/v1
CgroupAutomount=no
ConstrainDevices=yes
"""


@dataclass(frozen=True)
class Task:
    """A process of a job: its environment, and the numbers of the GPUs that it may open."""

    pid: int
    environment: Mapping[str, str]
    gpus: frozenset[int]


def unusable(*, confined: bool) -> str:
    """Why a cluster cannot run on this machine; empty where it can."""
    if os.geteuid() != 0:
        return "Slurm gives jobs to users and makes device nodes, so it needs root"
    if confined and not all(os.access(CGROUPS / name, os.W_OK) for name in CONTROLLERS):
        return f"no cgroup v1 with devices and freezer in {CGROUPS} that can be written"
    return ""


class Slurm:
    """`confined`: with cgroups and ConstrainDevices; else with neither."""

    def __init__(self, workdir: Path, *, confined: bool) -> None:
        self.workdir = workdir
        self.confined = confined
        self.ports = free_ports(3)
        # Slurm names cgroups by node: those of two clusters must not meet.
        self.nodes = tuple(f"n{port}" for port in self.ports[1:])
        self._conf = workdir / "slurm.conf"
        self._running = ExitStack()
        root = SLURM.folder / "usr"
        (libraries,) = (path.parent for path in root.glob("lib/*/slurm-wlm"))
        self._programs = root
        self._plugins = libraries / "slurm-wlm"
        self._environment = {
            "LD_LIBRARY_PATH": f"{libraries}:{self._plugins}",
            "PATH": f"{root / 'bin'}:{root / 'sbin'}:{os.environ['PATH']}",
            "SLURM_CONF": str(self._conf),
            "LC_ALL": "C",
        }

    def start(self) -> Slurm:
        self._write_files()
        key, ends = self.workdir / "munge.key", ("socket", "pid-file", "log-file", "seed-file")
        munge = [f"--key-file={key}", *(f"--{end}={self.workdir}/munge.{end}" for end in ends)]
        sock = self.workdir / "munge.socket"
        self._serve("munged", "--foreground", "--force", *munge, ready=sock.exists)
        self._serve("slurmctld", "-D", ready=lambda: "UP" in self._try("scontrol", "ping"))
        for node in self.nodes:
            # The path of the step daemon is compiled in.
            step = str(self._programs / "sbin" / "slurmstepd")
            self._serve("slurmd", "-D", "-N", node, "-d", step, ready=partial(self._is_idle, node))
        return self

    def stop(self) -> None:
        """Ends all jobs, then the daemons, and leaves no cgroup."""
        try:
            self.end_jobs()
        finally:
            self._running.close()
            for controller in CONTROLLERS:
                for node in self.nodes:
                    _remove(CGROUPS / controller / f"slurm_{node}")

    def end_jobs(self) -> None:
        self._try("scancel", "--user=root", "--signal=KILL", "--full")
        self._try("scancel", "--user=root")
        wait_until(lambda: self.run("squeue", "--noheader") == "", "no job to be left")

    def requeue(self, job: str, node: str) -> None:
        """Ends a job and lets it begin again on another node, without two minutes in between."""
        self.run("scontrol", "requeue", job)
        state = ("squeue", "--noheader", f"--jobs={job}", "--format=%T")
        wait_until(lambda: self.run(*state).strip() == "PENDING", f"job {job} to wait")
        self.run("scontrol", "update", f"JobId={job}", f"ReqNodeList={node}", "StartTime=now")

    def submit(self, label: str, *options: str, command: tuple[str, ...] = ()) -> str:
        """A batch job that shows what it has under `label`, or runs `command`; its id."""
        given = ("-", *command) if command else (label,)
        batch = (str(self.workdir / "batch.sh"), *given)
        answer = self.run("sbatch", "--parsable", "--output=/dev/null", *options, *batch)
        return answer.partition(";")[0].strip()

    @property
    def probe(self) -> str:
        """The program that shows what a process has: `probe LABEL`."""
        return str(self.workdir / "probe.sh")

    def tasks(self, label: str, count: int) -> list[Task]:
        """Waits for so many processes of that label; in the order of their Slurm ids and ranks."""
        wait_until(lambda: len(self._seen(label)) >= count, f"{count} processes of {label}")
        tasks = [_task(path.read_text()) for path in self._seen(label)]
        # Between two programs a process has no environment.
        wait_until(lambda: all(map(_stays, tasks)), f"{label} to have begun")
        ids = ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_PROCID")
        return sorted(
            tasks, key=lambda task: [int(task.environment.get(name, "0")) for name in ids]
        )

    def cgroups(self, node: str) -> Path:
        """A folder like /sys/fs/cgroup of a machine that is this node alone."""
        root = self.workdir / f"cgroups.{node}"
        for controller in CONTROLLERS:
            (root / controller).mkdir(parents=True, exist_ok=True)
            here = root / controller / f"slurm_{node}"
            if not here.is_symlink():
                here.symlink_to(CGROUPS / controller / here.name)
        return root

    def run(self, tool: str, *arguments: str) -> str:
        """One of Slurm's own tools to its end; its output, or PeerError with what it said."""
        ran = subprocess.run(
            [str(self._programs / "bin" / tool), *arguments],
            env={**os.environ, **self._environment},
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )
        if ran.returncode != 0:
            raise PeerError(f"{tool} {' '.join(arguments)}:\n{ran.stdout}{ran.stderr}")
        return ran.stdout

    def _try(self, tool: str, *arguments: str) -> str:
        try:
            return self.run(tool, *arguments)
        except PeerError:
            return ""

    def _is_idle(self, node: str) -> bool:
        return "idle" in self._try("sinfo", "--noheader", f"--nodes={node}", "--format=%T").split()

    def _seen(self, label: str) -> list[Path]:
        return [path for path in self.workdir.glob(f"{label}.*") if path.suffix != ".part"]

    def _serve(self, program: str, *options: str, ready: Callable[[], bool]) -> None:
        log = self.workdir / f"{program}.{len(list(self.workdir.glob('*.log')))}.log"
        command = [str(self._programs / "sbin" / program), *options]
        child = Child(command, log, ready, environment=self._environment)
        child.start()
        self._running.callback(child.stop)

    def _write_files(self) -> None:
        folder = self.workdir
        for number in GPUS:
            os.mknod(folder / f"gpu{number}", stat.S_IFCHR | 0o666, _device(number))
        (folder / "state").mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o600)
        self._conf.write_text(self._config())
        lines = [f"NodeName={node} Name=gpu File={folder}/gpu[0-3]" for node in self.nodes]
        (folder / "gres.conf").write_text("\n".join(["AutoDetect=off", *lines, ""]))
        (folder / "cgroup.conf").write_text(CGROUP_CONF)
        probe = PROBE.format(folder=folder, longest_s=_LONGEST_JOB_S)
        for name, text in (("probe.sh", probe), ("batch.sh", BATCH.format(probe=self.probe))):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)

    def _config(self) -> str:
        return CONF.format(
            host=socket.gethostname().partition(".")[0],
            address=HOST,
            ports=self.ports,
            nodes=self.nodes,
            folder=self.workdir,
            plugins=self._plugins,
            proctrack="cgroup" if self.confined else "linuxproc",
            task="cgroup" if self.confined else "none",
        )


def _device(number: int) -> int:
    return os.makedev(_NVIDIA_MAJOR, number)


def _task(text: str) -> Task:
    values = dict(line.partition("=")[::2] for line in text.splitlines())
    gpus = frozenset(number for number in GPUS if f"OPENS_{number}" in values)
    return Task(int(values["PID"]), values, gpus)


def _stays(task: Task) -> bool:
    """Whether it has become what it stays, or has ended."""
    folder = Path("/proc") / str(task.pid)
    try:
        is_last = (folder / "comm").read_text() == "sleep\n"
        return is_last and bool((folder / "environ").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return True


def _remove(folder: Path) -> None:
    """A cgroup and those below it, once their processes are gone."""
    if folder.is_dir():
        for child in folder.iterdir():
            if child.is_dir():
                _remove(child)
        folder.rmdir()
