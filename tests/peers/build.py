"""Builds the real peers that tests talk to: a Collector, Prometheus and Alertmanager, from Go.

In: the pinned Go modules beside this file, a Go toolchain. Out: executables in the user's cache
folder, one folder for each version and source, complete or absent. Needs nothing but Python.

    python tests/peers/build.py [collector] [prometheus] [alertmanager]
    python tests/peers/build.py --where promtool
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parent


class BuildError(Exception):
    """A peer could not be built; the message says why."""


@dataclass(frozen=True)
class Peer:
    """One Go module beside this file and what comes out of it."""

    name: str  # also that of its folder
    module: str  # the Go module in go.mod whose version is the peer's
    packages: tuple[str, ...]  # what to build; each gives one executable
    binaries: tuple[str, ...]  # their file names, the one that serves first
    version_variable: str  # the Go variable that holds the version
    tags: str = ""
    placeholder: str = ""  # a file that the module embeds but does not ship

    @property
    def source(self) -> Path:
        return SOURCES / self.name

    @property
    def module_version(self) -> str:
        """Version of the Go module as go.mod pins it, such as `v0.161.0`."""
        text = (self.source / "go.mod").read_text()
        found = re.search(rf"^\s*(?:require )?{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if found is None:
            raise BuildError(f"{self.source / 'go.mod'} does not require {self.module}")
        return found[1]

    @property
    def version(self) -> str:
        """Version as the program itself names it. Prometheus X.Y.Z is its module v0.XYY.Z."""
        version = self.module_version.removeprefix("v")
        if self.name != "prometheus":
            return version
        _, minor, patch = version.split(".")
        return f"{int(minor) // 100}.{int(minor) % 100}.{patch}"

    @property
    def folder(self) -> Path:
        """Where the executables are, or will be."""
        return cache() / f"{self.name}-{self.version}-{self.fingerprint()}"

    @property
    def is_built(self) -> bool:
        return all((self.folder / binary).is_file() for binary in self.binaries)

    def fingerprint(self) -> str:
        """Changes when the module's files or the way it is built change."""
        seen = hashlib.sha256(repr(self).encode())
        for path in sorted([*self.source.glob("go.*"), *self.source.glob("*.go")]):
            seen.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return seen.hexdigest()[:12]


PEERS = (
    Peer(
        name="collector",
        module="go.opentelemetry.io/collector/otelcol",
        packages=(".",),
        binaries=("otelcol",),
        version_variable="main.version",
    ),
    Peer(
        name="prometheus",
        module="github.com/prometheus/prometheus",
        packages=(
            "github.com/prometheus/prometheus/cmd/prometheus",
            "github.com/prometheus/prometheus/cmd/promtool",
        ),
        binaries=("prometheus", "promtool"),
        version_variable="github.com/prometheus/common/version.Version",
        # Targets come from static lists and files here; the clouds would double the build.
        tags="remove_all_sd",
    ),
    Peer(
        name="alertmanager",
        module="github.com/prometheus/alertmanager",
        packages=(
            "github.com/prometheus/alertmanager/cmd/alertmanager",
            "github.com/prometheus/alertmanager/cmd/amtool",
        ),
        binaries=("alertmanager", "amtool"),
        version_variable="github.com/prometheus/common/version.Version",
        # Its web page is built by npm and not in the Go module, yet embedded without a condition.
        placeholder="ui/app/dist/README",
    ),
)


def cache() -> Path:
    """The folder that holds all built peers."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "otel-ofu" / "peers"


def where(name: str) -> Path | None:
    """Path of an executable, named by its peer or by itself; None when it is not built."""
    for peer in PEERS:
        if name in {peer.name, *peer.binaries}:
            binary = peer.binaries[0] if name == peer.name else name
            return peer.folder / binary if peer.is_built else None
    return None


def build(peer: Peer) -> None:
    """Build into a temporary folder and move it in place at the end, so that it is all or none."""
    cache().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache(), prefix=".building-") as temporary:
        scratch = Path(temporary)
        done = scratch / "done"
        done.mkdir()
        go(peer, *compile_command(peer, scratch, done))
        settle(done, peer.folder)
        if not peer.is_built:
            raise BuildError(f"go built {peer.folder}, but not all of {', '.join(peer.binaries)}")


def compile_command(peer: Peer, scratch: Path, out: Path) -> list[str]:
    """Arguments for `go` that build the peer's packages into the folder `out`."""
    linked = f"-s -w -X {peer.version_variable}={peer.version}"
    command = ["build", "-mod=readonly", "-trimpath", "-buildvcs=false", f"-ldflags={linked}"]
    if peer.tags:
        command.append(f"-tags={peer.tags}")
    if peer.placeholder:
        command.append(f"-modfile={completed_module(peer, scratch)}")
    # The one package of our own is named after its folder, not after its executable.
    target = f"{out / peer.binaries[0]}" if len(peer.packages) == 1 else f"{out}{os.sep}"
    return [*command, "-o", target, *peer.packages]


def completed_module(peer: Peer, scratch: Path) -> Path:
    """Copy the module, add the file that it lacks; return a go.mod that points to the copy."""
    downloaded = json.loads(go(peer, "mod", "download", "-json", peer.module))
    copy = scratch / "module"
    shutil.copytree(downloaded["Dir"], copy, copy_function=shutil.copyfile)
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        folder.chmod(0o755)  # the module cache is read-only
    missing = copy / peer.placeholder
    missing.parent.mkdir(parents=True, exist_ok=True)
    missing.write_text("Built for tests, without its web page.\n")
    for name in ("go.mod", "go.sum"):
        shutil.copyfile(peer.source / name, scratch / name)
    go(peer, "mod", "edit", f"-replace={peer.module}={copy}", str(scratch / "go.mod"))
    return scratch / "go.mod"


def go(peer: Peer, *arguments: str) -> str:
    """Run go in the peer's folder; return its output, or raise with the tail of its messages."""
    # No C compiler needed, and no go.work above this checkout has a say.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    ran = subprocess.run(
        ["go", *arguments],
        cwd=peer.source,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        tail = "\n".join(f"  {line}" for line in ran.stderr.splitlines()[-20:])
        raise BuildError(f"`go {arguments[0]}` failed in {peer.source}:\n{tail}")
    return ran.stdout


def settle(done: Path, folder: Path) -> None:
    """Move a finished build in place; one that another process finished first is as good."""
    try:
        done.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def ensure(peer: Peer) -> bool:
    """Build the peer unless it is there; print one line that says what came of it."""
    began = time.monotonic()
    what = f"{peer.name} {peer.version}"
    if peer.is_built:
        print(f"{what}: {peer.folder / peer.binaries[0]} (was there)", flush=True)
        return True
    try:
        build(peer)
    except (BuildError, OSError) as error:
        print(f"{what}: not built: {error}", file=sys.stderr, flush=True)
        return False
    took = time.monotonic() - began
    print(f"{what}: {peer.folder / peer.binaries[0]} ({took:.0f} s)", flush=True)
    return True


def arguments(argv: list[str] | None) -> argparse.Namespace:
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(description="Builds the real peers that tests talk to.")
    parser.add_argument(
        "peers", nargs="*", metavar="PEER", help=f"any of {', '.join(names)}; default: all"
    )
    parser.add_argument("--where", metavar="NAME", help="print the path of a built executable")
    parsed = parser.parse_args(argv)
    unknown = [name for name in parsed.peers if name not in names]
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)} (there are {', '.join(names)})")
    return parsed


def tell(name: str) -> int:
    path = where(name)
    print(path or f"{name} is not built", file=sys.stdout if path else sys.stderr)
    return 0 if path else 1


def main(argv: list[str] | None = None) -> int:
    """Exit status: 0 when all that was asked for is there, otherwise 1."""
    asked = arguments(argv)
    if asked.where:
        return tell(asked.where)
    wanted = [peer for peer in PEERS if not asked.peers or peer.name in asked.peers]
    if shutil.which("go") is None and not all(peer.is_built for peer in wanted):
        print("peers need Go: no `go` on PATH", file=sys.stderr)
        return 1
    outcomes = [ensure(peer) for peer in wanted]  # each has its try, whatever became of the others
    return 0 if all(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
