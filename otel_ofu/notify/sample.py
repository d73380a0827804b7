"""A sample for one receiver, sent at once and past the outbox, to see whether it arrives.

Enters: settings and the name of a receiver. Leaves: for each of its places, what came of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from otel_ofu.model import Diagnosis, Entity, RankedCause
from otel_ofu.model.clock import Clock
from otel_ofu.notify import alertmanager
from otel_ofu.notify.alert import Alert, ended, opened
from otel_ofu.notify.http import NOTIFICATION
from otel_ofu.notify.notification import Notification
from otel_ofu.notify.settings import RouteSettings
from otel_ofu.notify.targets import (
    Server,
    Target,
    message_options,
    servers_of,
    targets_of,
    transports,
)
from otel_ofu.outbox.body import Body
from otel_ofu.outbox.outcome import Delivered, Transport

ALERTMANAGER = "alertmanager"
_LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Sampled:
    """`problem` is empty if the place took the sample."""

    place: str
    problem: str = ""


def sample(
    settings: RouteSettings, name: str, clock: Clock, environ: Mapping[str, str]
) -> list[Sampled]:
    """Sends to the receiver of this name, or to every server for `alertmanager`; never raises.

    ValueError for a name that is none, and for settings that are no use. Where it can be, the
    sample is resolved right after, so that it wakes nobody for long.
    """
    now_s = clock.now_s()
    alert = opened(sample_diagnosis(now_s))
    if name == ALERTMANAGER and settings.alertmanager.servers:
        labels = settings.alertmanager.labels
        wire = alertmanager.posted(alert, labels, message_options(settings))
        (body,) = alertmanager.bodies_of([msgspec.json.encode(wire)])
        return [_sent(server, [body]) for server in servers_of(settings, clock, environ)]
    targets = [t for t in targets_of(settings, clock, environ) if t.receiver == name]
    if not targets:
        known = [r.name for r in settings.receivers]
        known += [ALERTMANAGER] if settings.alertmanager.servers else []
        raise ValueError(f"no receiver {name!r}; known: {', '.join(known) or 'none'}")
    return [_sent(target, list(_bodies(target, alert, now_s))) for target in targets]


def sample_diagnosis(now_s: float) -> Diagnosis:
    """Says of itself that it is a test; everything that a message may have is in it."""
    cause = RankedCause(
        "test",
        "This is only a test",
        1.0,
        evidence=("somebody ran `otel-ofu notify --test`",),
        next_steps=("Nothing is to be done: run `otel-ofu route --explain` to see who is told.",),
    )
    entity = Entity("job", "test", {"ofu.job.id": "test", "host.name": "test"})
    return Diagnosis(
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


def _bodies(target: Target, alert: Alert, now_s: float) -> Iterator[Body]:
    over = replace(alert)
    ended(over, now_s)
    for one in (alert, over) if target.send_resolved else (alert,):
        id_ = f"msg_test_{int(now_s)}_{'firing' if one.firing else 'resolved'}"
        told = Notification(id_, target.receiver, "otel-ofu-test", {}, [one], now_s)
        yield Body.of(NOTIFICATION, target.encode(told), 1)


def _sent(target: Target | Server, bodies: Sequence[Body]) -> Sampled:
    try:
        ((_, transport),) = transports(target).items()
    except (ValueError, OSError) as error:
        return Sampled(target.queue, str(error))
    try:
        problems = [why for body in bodies if (why := _problem(transport, body))]
    finally:
        transport.close()
    return Sampled(transport.place, problems[0] if problems else "")


def _problem(transport: Transport, body: Body) -> str:
    try:
        outcome = transport.send(body, _LIMIT_S)
    except OSError as error:  # a TLS file that went away since it was checked
        return error.strerror or str(error)
    return "" if isinstance(outcome, Delivered) else outcome.message
