"""What OFU a job usually has, over its restarts.

Enters: the store's `job_ofu`, once a minute. Leaves: `job_ofu_baseline` of each job, for rules to
compare with. Kept in SQLite under the state folder by fingerprint.
"""

from __future__ import annotations

import logging
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from otel_ofu.files.sqlite import Change, FileSchema, Rows, SqliteTables, Table
from otel_ofu.model import Entity, Observation, Window
from otel_ofu.rules.files.rule import stable_hash
from otel_ofu.store import Store

log = logging.getLogger(__name__)

VERSION = 1
# All of these are starting values.
EVERY_S = 60.0
WINDOW_S = 600.0
KNOWN_AFTER = 30
"""Minutes of a job's work before it has a usual level."""
MEMORY = 240
"""Minutes that count for the usual level; older ones fade."""
FELL = 0.75
ADOPTED_AFTER_S = 6 * 3_600.0
"""Below this share of the usual level a job has fallen; after so long that is its usual level."""
FORGET_S = 90 * 86_400.0
SAVE_EVERY_S = 300.0
"""What is lost by a kill is learnt again in as long."""
KEY = "job_ofu_baseline"

_SCHEMA = """
CREATE TABLE jobs (
  fingerprint TEXT PRIMARY KEY, ofu REAL NOT NULL, minutes INTEGER NOT NULL,
  seen_s REAL NOT NULL, low_since_s REAL
) WITHOUT ROWID;
"""
_FORM = FileSchema(_SCHEMA, VERSION, "usual levels of jobs")
_JOBS = Table("jobs", ("fingerprint",), tuple[str, float, int, float, float | None])


_NAMES = (
    *("slurm.job.name", "slurm.partition", "slurm.cluster.name", "lsf.job.name", "lsf.queue"),
    *("pbs.job.name", "pbs.queue", "k8s.namespace.name", "k8s.container.name"),
)
_IDENTIFYING = ("slurm.job.name", "lsf.job.name", "pbs.job.name", "k8s.pod.name")
_POD = "k8s.pod.name"
# What controllers append: a hash of a template, five random letters, an index.
_APPENDED = re.compile(r"(-[a-z0-9]{8,10})?-[a-z0-9]{5}$|-\d+$")


@dataclass(slots=True)
class UsualOfu:
    """The usual OFU of a fingerprint, from how many minutes; since when the job is far below it."""

    ofu: float
    minutes: int
    seen_s: float
    low_since_s: float | None = None

    def learn(self, ofu: float, now_s: float) -> None:
        """Takes one more minute, unless the job is in trouble."""
        self.seen_s = now_s
        if self.minutes >= KNOWN_AFTER and ofu < FELL * self.ofu:
            self.low_since_s = now_s if self.low_since_s is None else self.low_since_s
            if now_s - self.low_since_s < ADOPTED_AFTER_S:
                return
            self.ofu, self.minutes = ofu, KNOWN_AFTER
        self.low_since_s = None
        self.minutes += 1
        self.ofu += (ofu - self.ofu) / min(self.minutes, MEMORY)


class Baselines:
    """Belongs to one thread. `path` None remembers until the end of the process alone."""

    def __init__(self, path: Path | None, store: Store) -> None:
        self._file = SqliteTables(path, _FORM, _load, log)
        self._store = store
        self._usual = self._file.loaded
        self._changed: set[str] = set()
        self._jobs: list[tuple[Entity, str]] = []
        self._learned_s = self._saved_s = -math.inf

    @property
    def messages(self) -> list[str]:
        """What was wrong with the file at the start, a line each, logged as well."""
        return self._file.messages

    def tick(self, now_s: float) -> list[Observation]:
        """Learns when a minute has gone by; the usual level of every job that has one."""
        if now_s < self._learned_s:
            self._learned_s = self._saved_s = -math.inf
        if now_s - self._learned_s >= EVERY_S:
            self._learned_s = now_s
            self._learn(now_s)
        if now_s - self._saved_s >= SAVE_EVERY_S:
            self._saved_s = now_s
            self.save(now_s)
        window = Window(now_s, now_s)
        return [
            Observation(job, window, {KEY: usual.ofu})
            for job, print_ in self._jobs
            if (usual := self._usual.get(print_)) and usual.minutes >= KNOWN_AFTER
        ]

    def save(self, now_s: float) -> None:
        """Writes what changed; a disk that takes nothing is tried again."""
        old = [p for p, usual in self._usual.items() if usual.seen_s < now_s - FORGET_S]
        changed = ((p, self._usual[p]) for p in sorted(self._changed) if p in self._usual)
        rows = [(p, u.ofu, u.minutes, u.seen_s, u.low_since_s) for p, u in changed]
        if not self._file.save(Change(_JOBS, rows, gone=[(p,) for p in old])):
            return
        self._changed.clear()
        for print_ in old:
            del self._usual[print_]

    def close(self, now_s: float) -> None:
        self.save(now_s)
        self._file.close()

    def _learn(self, now_s: float) -> None:
        self._jobs = []
        for job, gpus, ofu in self._seen(now_s):
            print_ = job_fingerprint(job, gpus)
            self._jobs.append((job, print_))
            if print_ not in self._usual:
                self._usual[print_] = UsualOfu(ofu, 0, now_s)
            self._usual[print_].learn(ofu, now_s)
            self._changed.add(print_)

    def _seen(self, now_s: float) -> list[tuple[Entity, float, float]]:
        """Jobs, their GPUs and their OFU over ten minutes, where half of it is known."""
        with self._store.reading():
            ofu = self._store.block("job", "job_ofu", now_s - WINDOW_S, now_s)
            gpus = self._store.block("job", "job_gpu_count", now_s - WINDOW_S, now_s)
            rows, counts = ofu.array(), gpus.array()
            known = ~np.isnan(rows)
            enough = known.sum(axis=0) * 2 >= ofu.expected
            sizes = np.fmax.reduce(counts, axis=0) if len(counts) else np.full(ofu.columns, np.nan)
            return [
                (job, float(np.nan_to_num(sizes[n])), float(np.nanmean(rows[:, n], dtype=float)))
                for n, job in self._store.slots("job")
                if n < len(enough) and enough[n]
            ]


def _load(rows: Rows) -> dict[str, UsualOfu]:
    return {print_: UsualOfu(*rest) for print_, *rest in rows(_JOBS)}


def job_fingerprint(job: Entity, gpus: float) -> str:
    """What makes two runs the same job: its name, what it runs, how many GPUs, which precision.

    The same for the same job started again; its id alone where nothing names it. Another precision
    or number of GPUs is another job, with a past of its own.
    """
    attributes = job.attributes
    named = {name: str(attributes[name]) for name in _NAMES if name in attributes}
    if _POD in attributes:
        named[_POD] = _APPENDED.sub("", str(attributes[_POD]))
    if not any(name in attributes for name in _IDENTIFYING):
        named = {"ofu.job.id": job.id}
    sku, precision = attributes.get("ofu.gpu.sku", ""), attributes.get("ofu.precision", "")
    return stable_hash("job", sorted(named.items()), round(gpus), str(sku), str(precision))
