"""The owner of each GPU, polled rarely, asked for often.

Enters: settings, what to ask, the instant. Leaves: device UUID -> owners, at once or after a
bounded wait; never an exception.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from otel_ofu.jobs.owner import GpuHolder, PollReport
from otel_ofu.jobs.poll import Owners, Poll, PollInputs, PollResult, Step, hang_text
from otel_ofu.jobs.settings import JobSettings
from otel_ofu.model import Device, Owner
from otel_ofu.model.clock import Clock, SystemClock
from otel_ofu.model.worker import Worker

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
    answers, not the caller. After four intervals it is left, and another begins without what did
    not answer. `processes`: which process holds which device. `devices`: those of the
    last round, needed where ids are not UUIDs (numbers, PCI addresses, old MIG names).
    `source_owners`: device UUID -> `Reading.owners`. All three are called in the polling thread.
    """

    def __init__(  # noqa: PLR0913 - each a seam of its own
        self,
        settings: JobSettings,
        *,
        processes: Callable[[], Sequence[GpuHolder]],
        devices: Callable[[], Sequence[Device]] = tuple,
        source_owners: Callable[[], Mapping[str, Sequence[Owner]]] = dict,
        proc_root: Path = PROC,
        cgroup_root: Path = CGROUPS,
        clock: Clock | None = None,
        budget_s: float = BUDGET_S,
        call_timeout_s: float = CALL_TIMEOUT_S,
    ) -> None:
        self._clock = clock or SystemClock()
        inputs = PollInputs(
            processes, devices, source_owners, proc_root, cgroup_root, call_timeout_s
        )
        self._poll = Poll(settings, inputs)
        self._hangs_at: Step | None = None
        self._worker = Worker(
            "otel-ofu-jobs",
            self._run,
            interval_s=settings.interval,
            budget_s=budget_s,
            on_hang=self._begin_anew,
        )
        self._polled = PollResult({})
        self._report = PollReport()

    def owners(self, now_s: float) -> Owners:
        """The owners of each device that has one; waits `budget_s` at the longest.

        `now_s`: the instant in Unix seconds. A device that is missing has no known owner.
        """
        self._worker.run(now_s)
        polled_at_s = self._report.polled_at_s
        if polled_at_s is None or self._worker.is_stale(polled_at_s, now_s):
            return {}
        return self._polled.owners

    def report(self) -> PollReport:
        """How the last poll went, for doctor and the agent's own metrics."""
        return self._report

    def close(self) -> None:
        """Ends the connection to the kubelet; a poll that runs ends by itself."""
        self._poll.close()

    def _begin_anew(self) -> None:
        self._hangs_at = self._poll.step
        self._poll = self._poll.successor()
        troubles = self._poll.troubles
        troubles.note("poll_hangs", hang_text(self._hangs_at))
        self._report = replace(self._report, problems=troubles.problems(), counts=troubles.counts())

    def _run(self, now_s: float) -> None:
        poll = self._poll
        poll.avoided = self._hangs_at if self._worker.hangs else None
        started_s = self._clock.monotonic_s()
        polled = _polled(poll)
        report = PollReport(
            polled_at_s=now_s,
            seconds=self._clock.monotonic_s() - started_s,
            devices=len(polled.owners),
            processes=polled.processes,
            unowned=polled.unowned,
            problems=poll.troubles.problems(),
            counts=poll.troubles.counts(),
        )
        if poll is self._poll:  # else it hung, and another one took over
            self._polled, self._report = polled, report


def _polled(poll: Poll) -> PollResult:
    try:
        return poll.run()
    except Exception as error:
        log.debug("a poll failed", exc_info=error)
        poll.troubles.note("poll_failed", f"{type(error).__name__}: {error}")
        return PollResult({})
