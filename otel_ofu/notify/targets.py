"""The targets of a configuration: for each, a queue of the outbox, an encoding and a transport.

Enters: settings. Leaves: `Target` values. Nothing is opened or read here but TLS files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from otel_ofu.model.clock import Clock
from otel_ofu.notify import alertmanager, apprise, pagerduty, stdout, webhook
from otel_ofu.notify.http import NOTIFICATION
from otel_ofu.notify.message import MessageOptions, parse_message_template
from otel_ofu.notify.muting import parse_zone
from otel_ofu.notify.notification import Encode
from otel_ofu.notify.settings import (
    AppriseConfig,
    PagerdutyConfig,
    ReceiverConfig,
    RouteSettings,
    StdoutConfig,
    WebhookConfig,
)
from otel_ofu.outbox.batch import Limits
from otel_ofu.outbox.outcome import Transport

# One target's part of the disk: some 100,000 notifications of one alert, or 600 of 1,000.
MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """One place of a receiver. `connect` gives the transport; ValueError for useless TLS files."""

    queue: str
    receiver: str
    send_resolved: bool
    encode: Encode
    connect: Callable[[], Transport]


@dataclass(frozen=True, slots=True)
class Server:
    """One Alertmanager."""

    queue: str
    connect: Callable[[], Transport]


def message_options(settings: RouteSettings) -> MessageOptions:
    """ValueError for an unknown time zone or a template with a mistake, OSError for its file."""
    zone = parse_zone(settings.time_zone)
    known = MessageOptions(zone, settings.max_alerts, external_url=settings.external_url)
    if not settings.template_file:
        return known
    try:
        parts = parse_message_template(Path(settings.template_file).read_text("utf-8"))
    except ValueError as error:
        why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ValueError(f"{settings.template_file}: {why}") from error
    return MessageOptions(zone, settings.max_alerts, parts, settings.external_url)


def servers_of(
    settings: RouteSettings, clock: Clock, environ: Mapping[str, str]
) -> Sequence[Server]:
    config = settings.alertmanager

    def connect(server: str) -> Callable[[], Transport]:
        return lambda: alertmanager.delivery_to(server, config, clock, environ)

    return [Server(server_queue(server), connect(server)) for server in config.servers]


def targets_of(
    settings: RouteSettings, clock: Clock, environ: Mapping[str, str]
) -> Sequence[Target]:
    """ValueError or OSError for a template or a time zone that is no use."""
    maker = _Maker(message_options(settings), clock, environ)
    return [target for receiver in settings.receivers for target in maker.targets(receiver)]


def queue_limits(settings: RouteSettings) -> Mapping[str, Limits]:
    """The queues that the outbox has to have for these settings."""
    limits = Limits(MAX_BYTES, float(settings.max_age))
    servers = [server_queue(server) for server in settings.alertmanager.servers]
    targets = [name for receiver in settings.receivers for name in _queues(receiver)]
    return dict.fromkeys([*servers, *targets], limits)


def server_queue(server: str) -> str:
    """Named by the address: unsent alerts follow it when the list changes."""
    parts = urlsplit(alertmanager.url_of(server))
    path = parts.path.removesuffix(alertmanager.PATH)
    return f"route/alertmanager/{parts.netloc.rpartition('@')[2]}{path}"


def transports(target: Target | Server) -> Mapping[str, Transport]:
    """By signal, as a sender wants them."""
    signal = alertmanager.SIGNAL if isinstance(target, Server) else NOTIFICATION
    return {signal: target.connect()}


def _queues(receiver: ReceiverConfig) -> list[str]:
    kinds: Mapping[str, Sequence[object]] = {
        "webhook": receiver.webhook_configs,
        "pagerduty": receiver.pagerduty_configs,
        "apprise": receiver.apprise_configs,
        "stdout": receiver.stdout_configs,
    }
    return [
        f"route/{receiver.name}/{kind}-{i}"
        for kind, all_ in kinds.items()
        for i in range(len(all_))
    ]


Made = tuple[bool, Encode, Callable[[], Transport]]


@dataclass(frozen=True, slots=True)
class _Maker:
    """What all targets are made with."""

    options: MessageOptions
    clock: Clock
    environ: Mapping[str, str]

    def webhook(self, config: WebhookConfig) -> Made:
        encode = webhook.encoder(self.options, config.max_alerts)
        return (
            config.send_resolved,
            encode,
            lambda: webhook.delivery(config, self.clock, self.environ),
        )

    def pagerduty(self, config: PagerdutyConfig) -> Made:
        encode = pagerduty.encoder(config, self.options)
        return config.send_resolved, encode, lambda: pagerduty.delivery(config, self.environ)

    def apprise(self, config: AppriseConfig) -> Made:
        encode = apprise.encoder(config, self.options)
        return config.send_resolved, encode, lambda: apprise.AppriseDelivery(config, self.environ)

    def stdout(self, config: StdoutConfig) -> Made:
        return config.send_resolved, stdout.encoder(self.options), stdout.StdoutDelivery

    def targets(self, receiver: ReceiverConfig) -> Iterator[Target]:
        made = [
            *map(self.webhook, receiver.webhook_configs),
            *map(self.pagerduty, receiver.pagerduty_configs),
            *map(self.apprise, receiver.apprise_configs),
            *map(self.stdout, receiver.stdout_configs),
        ]
        for queue, (send_resolved, encode, connect) in zip(_queues(receiver), made, strict=True):
            yield Target(queue, receiver.name, send_resolved, encode, connect)
