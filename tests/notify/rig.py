"""Findings, and a router on virtual time whose outbox tests look into."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from otel_ofu.files.settings import hook
from otel_ofu.model import Attribute, Entity, EntityKind, Finding, FindingChange, Severity
from otel_ofu.model.clock import VirtualClock
from otel_ofu.notify.alert import Notification
from otel_ofu.notify.integrations import Integration, integrations_of, queue_limits
from otel_ofu.notify.router import Router
from otel_ofu.notify.settings import RouteSettings, settings_type
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.queues import Outbox

NOW_S = 1_800_000_000.0  # a Friday, 08:00 UTC
KEYS: Mapping[EntityKind, str] = {"gpu": "hw.id", "job": "ofu.job.id", "node": "host.name"}


def settings(**block: object) -> RouteSettings:
    """The block as a user writes it."""
    type_, _ = settings_type(block)
    return msgspec.convert(block, type_, dec_hook=hook)


def finding(
    name: str = "1",
    kind: FindingChange = "opened",
    *,
    each: EntityKind = "gpu",
    rule: str = "LowOfu",
    severity: Severity = "warning",
    at_s: float = NOW_S,
    since_s: float = NOW_S - 600.0,
    attributes: Mapping[str, Attribute] | None = None,
    **more: Any,  # noqa: ANN401 - other fields of a finding
) -> Finding:
    entity = Entity(each, name, {KEYS[each]: name, **(attributes or {})})
    known = {"summary": f"{rule} on {name}", "fingerprint": f"{rule}/{each}/{name}", **more}
    return Finding(
        kind=kind,
        rule=rule,
        entity=entity,
        severity=severity,
        at_s=at_s,
        since_s=since_s,
        **known,
    )


def integration(written: RouteSettings) -> Integration:
    """The first of all receivers."""
    return integrations_of(written)[0]


def body(written: RouteSettings, notification: Notification) -> Body:
    """What waits in the outbox for the first integration."""
    return integration(written).body(notification, written.message_options())


@dataclass
class Rig:
    """`notified` gives what was put into the queues since it was asked last."""

    router: Router
    outbox: Outbox
    clock: VirtualClock

    def handle(self, *findings: Finding) -> None:
        self.router.handle(findings)

    def run(self, seconds: float, step_s: float = 1.0) -> None:
        """Ticks, as the agent does."""
        for _ in range(round(seconds / step_s)):
            self.clock.advance(step_s)
            self.router.tick(self.clock.now_s())

    def notified(self, queue: str = "route/ops/stdout-0") -> list[Any]:
        found = []
        while (kept := self.outbox.queues[queue].take()) is not None:
            found.append(json.loads(kept.body.raw()))
            self.outbox.queues[queue].done(kept)
        return found

    def names(self, queue: str = "route/ops/stdout-0") -> list[tuple[str, Sequence[str]]]:
        """Status and entities of each notification."""
        return [
            (n["status"], [f"{a['status'][0]}:{_name(a['labels'])}" for a in n["alerts"]])
            for n in self.notified(queue)
        ]


def _name(labels: Mapping[str, str]) -> str:
    return labels.get(KEYS[labels["ofu_entity"]].replace(".", "_"), "")  # type: ignore[index]


@contextmanager
def everything_logged() -> Iterator[list[str]]:
    """What any logger says at any level, with its exceptions: as an agent at log level debug."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    root, handler = logging.getLogger(), Lines()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


@contextmanager
def rig(
    block: Mapping[str, object] | None = None,
    state_dir: Path | None = None,
    clock: VirtualClock | None = None,
) -> Iterator[Rig]:
    """One receiver `ops` for everything, unless the block says otherwise."""
    ops = {"receivers": [{"name": "ops", "stdout_configs": [{}]}], "receiver": "ops"}
    written = settings(**{**ops, **(block or {})})
    clock = clock or VirtualClock(NOW_S)
    outbox = Outbox(None, queue_limits(written), clock)
    router = Router(written, outbox, clock, state_dir)
    try:
        yield Rig(router, outbox, clock)
    finally:
        router.close()
        outbox.close()
