"""What people try first: which routes an alert takes, and whether a notification arrives.

Enters: settings, labels or the name of a receiver. Leaves: lines; for each endpoint of a receiver
what came of a test notification, sent at once and past the outbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial

import msgspec

from otel_ofu.model import Entity, Finding, RankedCause
from otel_ofu.model.clock import Clock
from otel_ofu.net.secrets import shown_url
from otel_ofu.notify import alertmanager
from otel_ofu.notify.alert import Alert, Notification, ended, opened, written_label
from otel_ofu.notify.integrations import Integration, integrations_of, queue_limits
from otel_ofu.notify.message import (
    MessageOptions,
    duration,
)
from otel_ofu.notify.routes import AlertRoute, build_routes, label_set
from otel_ofu.notify.settings import RouteSettings
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import Delivered, Transport


def explain(settings: RouteSettings, labels: Mapping[str, str], now_s: float) -> Iterator[str]:
    """ValueError for settings with a mistake."""
    own = {written_label(name): value for name, value in labels.items() if value}
    yield f"labels     {label_set(own)}"
    for server in settings.alertmanager.servers:
        yield f"always     Alertmanager {shown_url(server)}, which has routes of its own"
    routes = [route for route in build_routes(settings).matching(own) if route.receiver]
    for route in routes:
        yield from _route(settings, route, own, now_s)
    if not routes and not settings.alertmanager.servers:
        yield "nowhere    no receiver takes it"


def parse_labels(written: str) -> dict[str, str]:
    """`severity=critical,ofu.job.id=42`. ValueError for a part that is not a label."""
    found: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in written.strip().strip("{}").split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{part!r} is not a label; allowed: name=value,name=value")
        found[written_label(name.strip())] = value.strip().strip('"')
    return found


def _route(
    settings: RouteSettings, route: AlertRoute, labels: Mapping[str, str], now_s: float
) -> Iterator[str]:
    queues = [q for q in queue_limits(settings) if q.startswith(f"route/{route.receiver}/")]
    kinds = ", ".join(q.rpartition("/")[2] for q in queues) or "none: nobody is notified"
    timing = route.timing
    yield f"route      {route.path}"
    yield f"  receiver {route.receiver} ({kinds})"
    yield f"  group    {label_set(route.group_labels(labels))}"
    yield (
        f"  notified after {duration(timing.wait_s)}, news every"
        f" {duration(timing.interval_s)}, again every {duration(timing.repeat_s)}"
    )
    if muted := route.muted_by(now_s):
        yield f"  muted    now, by {muted}"


ALERTMANAGER = "alertmanager"
# Starting value: Apprise and mail servers take up to half a minute.
_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class SendResult:
    """`problem` is empty if the endpoint took the notification."""

    endpoint: str
    problem: str = ""


def send_test(
    settings: RouteSettings, name: str, clock: Clock, environ: Mapping[str, str]
) -> list[SendResult]:
    """Sends to the receiver of this name, or to every server for `alertmanager`.

    ValueError for an unknown name, and for settings with a mistake; what a network may do is in the
    result. Where it can be, the alert is resolved right after, so that it wakes nobody for long.
    """
    now_s, options = clock.now_s(), settings.message_options()
    alert = opened(test_finding(now_s))
    if name == ALERTMANAGER and settings.alertmanager.servers:
        wire = alertmanager.posted(alert, settings.alertmanager.labels, options)
        bodies = list(alertmanager.bodies_of([msgspec.json.encode(wire)]))
        servers = alertmanager.servers_of(settings.alertmanager)
        return [_result(s.queue, partial(s.connect, clock, environ), bodies) for s in servers]
    found = [each for each in integrations_of(settings) if each.receiver == name]
    if not found:
        known = [r.name for r in settings.receivers]
        known += [ALERTMANAGER] if settings.alertmanager.servers else []
        raise ValueError(f"unknown receiver {name!r}; known: {', '.join(known) or 'none'}")
    return [
        _result(i.queue, partial(i.connect, clock, environ), list(_bodies(i, alert, options)))
        for i in found
    ]


def test_finding(now_s: float) -> Finding:
    """Says of itself that it is a test; everything that a message may have is in it."""
    cause = RankedCause(
        "test",
        "This is only a test",
        1.0,
        evidence=("sent by `otel-ofu notify --test`",),
        next_steps=(
            "Nothing is to be done: run `otel-ofu route --explain` to see who is notified.",
        ),
    )
    entity = Entity("job", "test", {"ofu.job.id": "test", "host.name": "test"})
    return Finding(
        kind="opened",
        rule="OtelOfuTest",
        entity=entity,
        fingerprint="otel-ofu-test",
        severity="info",
        at_s=now_s,
        since_s=now_s - 600.0,
        summary="A test of otel-ofu's notifications. Nothing is wrong.",
        value=0.11,
        threshold=0.15,
        causes=(cause,),
        facts={"ofu": 0.11, "ofu_before": 0.43, "gpu_hours_lost": 3.4},
    )


def _bodies(integration: Integration, alert: Alert, options: MessageOptions) -> Iterator[Body]:
    now_s, over = alert.finding.at_s, copy(alert)
    ended(over, now_s)
    for one in (alert, over) if integration.config.send_resolved else (alert,):
        id_ = f"msg_test_{int(now_s)}_{'firing' if one.firing else 'resolved'}"
        notification = Notification(integration.receiver, "otel-ofu-test", {}, [one], now_s, id=id_)
        yield integration.body(notification, options)


def _result(queue: str, connect: Callable[[], Transport], bodies: Sequence[Body]) -> SendResult:
    try:
        transport = connect()
    except (ValueError, OSError) as error:
        return SendResult(queue, str(error))
    try:
        problems = [why for body in bodies if (why := _problem(transport, body))]
    finally:
        transport.close()
    return SendResult(transport.endpoint, problems[0] if problems else "")


def _problem(transport: Transport, body: Body) -> str:
    try:
        outcome = transport.send(body, _LIMIT_S)
    except OSError as error:  # a TLS file that went away since it was checked
        return error.strerror or str(error)
    return "" if isinstance(outcome, Delivered) else outcome.message
