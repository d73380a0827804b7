"""What a receiver is told at once: some alerts of one group, worst first.

Enters: a telling. Leaves: a plain value that every kind of receiver encodes in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from otel_ofu.notify.alert import Alert
from otel_ofu.notify.grouping import Telling, is_summary

Status = Literal["firing", "resolved"]


@dataclass(frozen=True, slots=True)
class Notification:
    """`alerts` stand worst first, ended ones last. `id` is another for every notification.

    `group_key` is the same for all of one group, whatever is told of it. `summary`: the alerts are
    of different groups, of which there were too many.
    """

    id: str
    receiver: str
    group_key: str
    group_labels: Mapping[str, str]
    alerts: Sequence[Alert]
    at_s: float
    summary: bool = False

    @property
    def status(self) -> Status:
        return "firing" if any(alert.firing for alert in self.alerts) else "resolved"

    @property
    def firing(self) -> Sequence[Alert]:
        return [alert for alert in self.alerts if alert.firing]


def notification_of(telling: Telling, receiver: str, id_: str, at_s: float) -> Notification:
    group = telling.group
    alerts = [*telling.firing, *telling.ended]
    summary = is_summary(group)
    return Notification(id_, receiver, group.key, group.labels, alerts, at_s, summary)


def common(maps: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all of them have alike."""
    if not maps:
        return {}
    first, *rest = maps
    return {k: v for k, v in first.items() if all(other.get(k) == v for other in rest)}


Encode = Callable[[Notification], bytes]
"""A notification as one receiver of a kind wants it, without secrets: it waits on the disk."""
