"""The owners of GPUs: job, node and peers, as arrays over the columns of GPUs.

Enters: the columns of a GPU's job and node, and its SKU, as they change. Leaves: index arrays for
joins and groups, -1 for none. Peers are the GPUs of the same job and the same SKU.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from otel_ofu.model import EntityKind

NONE = -1

Indices = NDArray[np.intp]
Peers = tuple[int, str]


class Membership:
    """Job column, node column and peer group of every GPU column.

    `peer_limit`: every number of a peer group is below it. Numbers are used again.
    """

    def __init__(self) -> None:
        self._job: Indices = np.full(0, NONE)
        self._node: Indices = np.full(0, NONE)
        self._peers: Indices = np.full(0, NONE)
        self._groups: dict[Peers, int] = {}
        self._group_of: dict[int, Peers] = {}
        self._free: list[int] = []
        self._sizes: Counter[Peers] = Counter()
        self._jobs: Counter[int] = Counter()
        self._nodes: Counter[int] = Counter()
        self.peer_limit = 0

    def jobs(self, columns: int) -> Indices:
        """The job column of each GPU column."""
        self._grow(columns)
        return self._job[:columns]

    def nodes(self, columns: int) -> Indices:
        """The node column of each GPU column."""
        self._grow(columns)
        return self._node[:columns]

    def peers(self, columns: int) -> Indices:
        """The peer group of each GPU column."""
        self._grow(columns)
        return self._peers[:columns]

    def has_gpus(self, kind: EntityKind, slot: int) -> bool:
        """Whether a GPU is of the job, or on the node, in a column."""
        return bool((self._jobs if kind == "job" else self._nodes)[slot])

    def assign(self, gpu: int, job: int, node: int, sku: str) -> None:
        """Sets the owners of the GPU in a column; NONE for no job or node."""
        self._grow(gpu + 1)
        self._move(self._jobs, int(self._job[gpu]), job)
        self._move(self._nodes, int(self._node[gpu]), node)
        self._job[gpu], self._node[gpu] = job, node
        self._join(gpu, (job, sku) if job != NONE else None)

    def release(self, gpu: int) -> None:
        """The GPU in a column has no owners."""
        self.assign(gpu, NONE, NONE, "")

    def release_job(self, job: int) -> None:
        """No GPU is of this job any more."""
        for gpu in np.flatnonzero(self._job == job).tolist():
            self.assign(gpu, NONE, int(self._node[gpu]), "")

    def release_node(self, node: int) -> None:
        """No GPU is on this node any more."""
        for gpu in np.flatnonzero(self._node == node).tolist():
            sku = self._group_of[gpu][1] if gpu in self._group_of else ""
            self.assign(gpu, int(self._job[gpu]), NONE, sku)

    def _move(self, held: Counter[int], old: int, new: int) -> None:
        if new != NONE:
            held[new] += 1
        if old != NONE:
            held[old] -= 1
            if not held[old]:
                del held[old]

    def _join(self, gpu: int, peers: Peers | None) -> None:
        old = self._group_of.pop(gpu, None)
        if peers is not None:
            self._group_of[gpu] = peers
            self._sizes[peers] += 1
            self._peers[gpu] = self._number(peers)
        else:
            self._peers[gpu] = NONE
        if old is not None:
            self._sizes[old] -= 1
            if not self._sizes[old]:
                del self._sizes[old]
                self._free.append(self._groups.pop(old))

    def _number(self, peers: Peers) -> int:
        if peers not in self._groups:
            if not self._free:
                self._free.append(self.peer_limit)
                self.peer_limit += 1
            self._groups[peers] = self._free.pop()
        return self._groups[peers]

    def _grow(self, columns: int) -> None:
        if len(self._job) < columns:
            more = np.full(max(64, columns), NONE)
            self._job = np.concatenate([self._job, more])
            self._node = np.concatenate([self._node, more])
            self._peers = np.concatenate([self._peers, more])
