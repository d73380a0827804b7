"""Whether a file that somebody else chose is one of a disk, of memory or of a file server.

Enters: a descriptor, best one of O_PATH, and the mounts of whoever named the file. Leaves: nothing,
or an OSError that names its file system. Files of the kernel can block, and reading some
takes away what others are to read (/proc/kmsg, trace_pipe); those of FUSE are served by a program
that may be the tenant's.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping

from otel_ofu.files.procfs import AccessDeniedError, ProcessGoneError, read_file

Mounts = Mapping[int, str]
"""Mount id, which is unique over all namespaces, -> type of file system."""

_PLAIN = re.compile(
    r"ext2|ext3|ext4|xfs|btrfs|bcachefs|f2fs|jfs|zfs|vfat|exfat|erofs|squashfs|"
    r"iso9660|overlay|aufs|tmpfs|ramfs|rootfs|nfs|nfs4|cifs|smb3|ceph|lustre|gpfs|"
    r"beegfs|beegfs_nodev|wekafs|panfs|orangefs|pvfs2|gfs2|ocfs2|afs|9p|virtiofs|"
    r"autofs"
)
"""Starting value: disks, memory, and the file servers of clusters. autofs has folders alone."""
_MOUNT = re.compile(rb"^(\d+) .*? - (\S+) ", re.MULTILINE)
_MOUNT_ID = re.compile(rb"^mnt_id:\s*(\d+)", re.MULTILINE)


def mounts(*tables: str) -> Mounts:
    """Those of the `mountinfo` files; one that cannot be read has none. Source: proc(5)."""
    return {
        int(number): kind.decode("ascii", "replace")
        for table in tables
        for number, kind in _MOUNT.findall(_read(table))
    }


def require_plain(descriptor: int, known: Mounts, *, fuse: bool = False) -> None:
    """OSError unless the file is where reading neither waits for others nor takes from them.

    Neither opens nor asks the file system, which may not answer. `fuse`: that is plain as well.
    """
    found = _MOUNT_ID.search(_read(f"/proc/self/fdinfo/{descriptor}"))
    kind = known.get(int(found[1]), "unknown") if found else "unknown"
    if not _PLAIN.fullmatch(kind) and not (fuse and kind.startswith("fuse")):
        raise OSError(errno.EOPNOTSUPP, f"not a file of a disk (file system: {kind})")


def _read(path: str) -> bytes:
    try:
        return read_file(path)
    except (ProcessGoneError, AccessDeniedError):
        return b""
