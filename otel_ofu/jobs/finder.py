"""Whose GPU it is, polled rarely, asked often.

Enters: settings, what to ask, the instant. Leaves: device UUID -> owners, at once or after a
bounded wait; never an exception.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from otel_ofu.jobs.holders import GpuHolder
from otel_ofu.jobs.poll import Inputs, Owners, Poll, Polled
from otel_ofu.jobs.report import JobReport
from otel_ofu.jobs.settings import JobSettings
from otel_ofu.model import Device
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.model.worker import Background

log = logging.getLogger(__name__)

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")
BUDGET_S = 1.0
"""Starting value: the longest that `JobFinder.owners` waits."""
CALL_TIMEOUT_S = 2.0
"""Starting value: of one request to the kubelet."""


class JobFinder:
    """`owners` may be called at every tick, by one thread at a time.

    A poll runs in a thread of its own: what hangs in it (a driver, a file system) costs fresh
    answers, not the caller. `processes`: which process holds which device. `devices`: those of the
    last round, needed where ids are not UUIDs (numbers, PCI addresses, old MIG names).
    `source_owners`: device UUID -> `Reading.owner`. All three are called in the polling thread.
    """

    def __init__(  # noqa: PLR0913 - each a seam of its own
        self,
        settings: JobSettings,
        *,
        processes: Callable[[], Sequence[GpuHolder]],
        devices: Callable[[], Sequence[Device]] = tuple,
        source_owners: Callable[[], Mapping[str, Mapping[str, str]]] = dict,
        proc_root: Path = PROC,
        cgroup_root: Path = CGROUPS,
        clock: Clock | None = None,
        budget_s: float = BUDGET_S,
        call_timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self._clock = clock or SystemClock()
        self._poll = Poll(
            settings,
            Inputs(processes, devices, source_owners),
            proc_root,
            cgroup_root,
            call_timeout_s,
        )
        self._background = Background(
            "otel-ofu-jobs",
            self._run,
            interval_s=settings.interval,
            budget_s=budget_s,
        )
        self._polled = Polled({})
        self._report = JobReport()

    def owners(self, now_s: float) -> Owners:
        """The owners of each device that has one; waits `budget_s` at the longest.

        `now_s`: the instant in Unix seconds. A device that is missing has no known owner.
        """
        self._background.turn(now_s)
        polled_at_s = self._report.polled_at_s
        if polled_at_s is None or self._background.is_stale(polled_at_s, now_s):
            return {}
        return self._polled.owners

    def report(self) -> JobReport:
        """How the last poll went, for doctor and the agent's own metrics."""
        return self._report

    def close(self) -> None:
        """Ends the connection to the kubelet; a poll that runs ends by itself."""
        self._poll.close()

    def _run(self, now_s: float) -> None:
        started_s = self._clock.monotonic_s()
        try:
            polled = self._poll.run()
        except Exception as error:
            log.debug("a poll failed", exc_info=error)
            self._poll.troubles.note("poll_failed", f"{type(error).__name__}: {error}")
            polled = Polled({})
        troubles = self._poll.troubles
        self._polled = polled
        self._report = JobReport(
            polled_at_s=now_s,
            seconds=self._clock.monotonic_s() - started_s,
            devices=len(polled.owners),
            processes=polled.processes,
            unowned=polled.unowned,
            problems=troubles.problems(),
            counts=troubles.counts(),
        )
