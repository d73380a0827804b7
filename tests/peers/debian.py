"""Fetches the real peers that Debian packages: Slurm with munge. Nothing is installed.

In: `apt-get` and `dpkg-deb` of Debian or Ubuntu. Out: the unpacked files of the packages, and of
those that they need and this system lacks, in the folder that `make peers` fills.

    python -m tests.peers.debian
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.peers.build import BuildError, cache, settle

APT = (
    "apt-get",
    "--assume-yes",
    "--no-install-recommends",
    "--option=Debug::NoLocking=1",
    "--option=APT::Sandbox::User=",  # its own user may not enter our folder
)


@dataclass(frozen=True)
class Packages:
    """Debian packages, unpacked into one tree. `programs` are paths in it."""

    name: str
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    alternatives: tuple[str, ...] = ()  # programs whose names end in -wlm there

    @property
    def folder(self) -> Path:
        return cache() / f"{self.name}-{hashlib.sha256(repr(self).encode()).hexdigest()[:12]}"

    @property
    def is_there(self) -> bool:
        return all((self.folder / program).is_file() for program in self.programs)


SLURM = Packages(
    name="slurm",
    packages=("slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge"),
    programs=("usr/sbin/munged", "usr/sbin/slurmctld", "usr/sbin/slurmd", "usr/bin/sbatch"),
    alternatives=("usr/sbin/slurmctld", "usr/sbin/slurmd", "usr/sbin/slurmstepd"),
)


def fetch(wanted: Packages) -> None:
    """Unpack into a temporary folder and move it in place at the end, so that it is all or none."""
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix=".fetching-") as temporary:
        scratch = Path(temporary)
        tree = scratch / "tree"
        tree.mkdir()
        for package in downloaded(wanted, scratch):
            run("dpkg-deb", "--extract", str(package), str(tree))
        for program in wanted.alternatives:
            (tree / program).symlink_to(f"{Path(program).name}-wlm")
        settle(tree, wanted.folder)
    if not wanted.is_there:
        raise BuildError(f"{wanted.folder} has not all of {', '.join(wanted.programs)}")


def downloaded(wanted: Packages, scratch: Path) -> list[Path]:
    """The packages that this system lacks, by its own lists, else by fresh ones of ours."""
    archives = scratch / "archives"
    (archives / "partial").mkdir(parents=True)
    here = (f"--option=Dir::Cache::archives={archives}",)
    download = ("--download-only", "--reinstall", "install", *wanted.packages)
    try:
        run(*APT, *here, *download)
    except BuildError:  # no lists, or old ones
        lists = scratch / "lists"
        (lists / "partial").mkdir(parents=True)
        own = (f"--option=Dir::State::lists={lists}", f"--option=Dir::Cache={scratch}")
        run(*APT, *own, *here, "update")
        run(*APT, *own, *here, *download)
    return sorted(archives.glob("*.deb"))


def run(*command: str) -> None:
    """Run to the end, or raise with the tail of what it said."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(f"needs `{command[0]}`, which Debian and Ubuntu have") from None
    if ran.returncode != 0:
        tail = "\n".join(f"  {line}" for line in ran.stderr.splitlines()[-10:])
        raise BuildError(f"`{command[0]}` failed:\n{tail}")


def main() -> int:
    """Exit status: 0 when it is there, otherwise 1."""
    began = time.monotonic()
    if SLURM.is_there:
        print(f"{SLURM.name}: {SLURM.folder} (was there)")
        return 0
    try:
        fetch(SLURM)
    except (BuildError, OSError) as error:
        print(f"{SLURM.name}: not fetched: {error}", file=sys.stderr)
        return 1
    print(f"{SLURM.name}: {SLURM.folder} ({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
