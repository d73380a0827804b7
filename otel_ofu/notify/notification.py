"""A notification: what a receiver is sent at once, some alerts of one group.

Enters: alerts. Leaves: a plain value that every notifier encodes in its own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from otel_ofu.notify.alert import Alert

SIGNAL = "notification"
"""The `signal` of a body that holds one notification, for limits and messages."""

Status = Literal["firing", "resolved"]


@dataclass(frozen=True, slots=True)
class Notification:
    """`alerts` stand worst first, ended ones last.

    `id` is another for every notification of every integration, `group_key` the same for all of one
    group. `news`: an alert fires that the receiver does not know, or it is time to repeat; False:
    there are only ends.
    """

    receiver: str
    group_key: str
    group_labels: Mapping[str, str]
    alerts: Sequence[Alert]
    at_s: float
    news: bool = True
    id: str = ""

    @property
    def status(self) -> Status:
        return "firing" if any(alert.firing for alert in self.alerts) else "resolved"

    @property
    def firing(self) -> Sequence[Alert]:
        return [alert for alert in self.alerts if alert.firing]


def common(maps: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What all of them have alike."""
    if not maps:
        return {}
    first, *rest = maps
    return {k: v for k, v in first.items() if all(other.get(k) == v for other in rest)}
