"""NCCL's configuration files, as a process sees them in its own mount namespace.

Enters: a process id and what its environment says. Leaves: the listed names with their values.
The environment comes before the user's file, and that before the system's.
Source: src/misc/param.cc of NVIDIA/nccl; NCCL user guide, "Environment Variables".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from otel_ofu.evidence.flags.book import CONF_FILE
from otel_ofu.evidence.flags.inside import read_inside
from otel_ofu.files.procfs import LONGEST_VALUE, Denied, Gone, ProcFs

SYSTEM_FILE = "/etc/nccl.conf"
USER_FILE = ".nccl.conf"
MOST_BYTES = 64 * 2**10
MOST_BYTES_PASSWD = 8 * 2**20

_UID = re.compile(rb"^Uid:\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Conf:
    """`whole`: every file that NCCL would read was read, or is not there."""

    values: Mapping[str, str]
    whole: bool = True


class NcclConf:
    """Remembers nothing."""

    def __init__(self, procfs: ProcFs, names: Collection[str]) -> None:
        self._procfs = procfs
        self._names = frozenset(names)

    def read(self, pid: int, environment: Mapping[str, str] | None) -> Conf:
        """`environment`: the listed variables of the process, None when they are not known."""
        root = f"{self._procfs.root}/{pid}/root"
        values: dict[str, str] = {}
        try:
            for path in self._paths(pid, root, environment):
                text = read_inside(root, path, MOST_BYTES)
                values = {**_listed(text or b"", self._names), **values}
        except (OSError, Gone, Denied, ValueError):
            return Conf(values, whole=False)
        return Conf(values, whole=environment is not None)

    def _paths(self, pid: int, root: str, environment: Mapping[str, str] | None) -> tuple[str, ...]:
        named = (environment or {}).get(CONF_FILE, "")
        if named:
            # A relative one is looked up from the process's own folder, which may be anywhere.
            return (named, SYSTEM_FILE) if named.startswith("/") else (SYSTEM_FILE,)
        home = self._home(pid, root)
        return (f"{home}/{USER_FILE}", SYSTEM_FILE) if home else (SYSTEM_FILE,)

    def _home(self, pid: int, root: str) -> str:
        """As getpwuid tells it from /etc/passwd; users of a directory service have none here."""
        uid = _UID.search(self._procfs.read(f"{pid}/status"))
        passwd = read_inside(root, "/etc/passwd", MOST_BYTES_PASSWD) or b""
        for line in passwd.split(b"\n") if uid else ():
            fields = line.split(b":")
            if len(fields) > 5 and uid and fields[2] == uid[1]:  # noqa: PLR2004 - passwd(5)
                return fields[5].decode("utf-8", "replace")
        return ""


def _listed(text: bytes, names: Collection[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text.split(b"\n"):
        name, assigned, value = line.partition(b"=")
        key = name.strip().decode("ascii", "replace")
        if assigned and key in names:
            found.setdefault(key, value.strip()[:LONGEST_VALUE].decode("utf-8", "replace"))
    return found
