"""What is beside the counters of the simulated node: flags, load, what the job reports.

Enters: the demo, and the observations of a round. Leaves: more observations, as a scan of
processes, a reader of /proc and a job's log would give them on a real node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from otel_ofu.app.collectors import CollectedValues
from otel_ofu.app.prepare import PreparedConfig
from otel_ofu.derive.jobs import JobAggregator
from otel_ofu.model import Entity, Observation
from otel_ofu.sources.demo import DemoSource
from otel_ofu.sources.demo.source import JOB_ID


class DemoCollector:
    """Adds to the rounds of one demo; `host` is the name of the simulated node."""

    def __init__(self, prepared: PreparedConfig, source: DemoSource, host: str) -> None:
        self._source = source
        self._node = Entity("node", host, {"host.name": host})
        self._aggregator = JobAggregator()
        self._flags = sorted(flag.id for flag in prepared.flags.watched)

    def collect(self, observations: Sequence[Observation], now_s: float) -> CollectedValues:
        if not observations:
            return CollectedValues()
        observed = [
            *self._aggregator.aggregate(observations, reports=self._reports(now_s)),
            Observation(self._node, observations[0].window, self._source.host_values(now_s)),
        ]
        return CollectedValues([*observed, *self._carried(observations)], observed)

    def _reports(self, now_s: float) -> Mapping[str, Mapping[str, float]]:
        reports = self._source.job_reports(now_s)
        if not reports or reports[-1].step_s is None:
            return {}
        return {JOB_ID: {"model_flop_rate": reports[-1].flop_per_s}}

    def _carried(self, observations: Sequence[Observation]) -> Iterator[Observation]:
        """Flags of the processes on each GPU: 1 while the trouble that carries them is there."""
        window = observations[0].window
        facts = self._source.facts_at(window.start_s)
        carried = {name for fact in facts for name in fact.flags}
        values = {f"flag:{name}": float(name in carried) for name in self._flags}
        for seen in observations:
            yield Observation(seen.entity, window, values)
