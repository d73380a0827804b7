"""Alerts for Alertmanagers: every change at once, and everything again while it fires.

Enters: the block `alertmanager`, alerts. Leaves: bodies in the queue of each server;
POST /api/v2/alerts.
Source: https://prometheus.io/docs/alerting/latest/alerts_api, Alertmanager API v2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from otel_ofu.files.settings import CheckContext, Duration, Mistake, ParsedText, Settings
from otel_ofu.model.clock import Clock
from otel_ofu.model.labels import is_label_name
from otel_ofu.net.secrets import shown_url
from otel_ofu.net.settings import RequiredUrl
from otel_ofu.notify.alert import Alert, iso
from otel_ofu.notify.http import (
    Credentials,
    HttpConfig,
    Interval,
    NotificationTransport,
    PreparedRequest,
)
from otel_ofu.notify.message import (
    MessageOptions,
    number,
    percent,
    text_of,
)
from otel_ofu.outbox.batch import Body, Priority
from otel_ofu.outbox.queues import Queue

SIGNAL = "alerts"
# Starting value: 1,000 alerts are some 2 MB, which every server takes.
BATCH = 1000
PATH = "/api/v2/alerts"
# Prometheus gives an alert four times the interval of its re-sending to live; with less Grafana's
# flapped. Source: https://github.com/grafana/grafana/pull/38648
LIVES = 4


def _parse_label(name: str) -> None:
    if not is_label_name(name):
        raise ValueError(f"{name!r} is not a label name; allowed: letters, digits and _")


LabelName = Annotated[str, ParsedText(_parse_label, required=True)]


class AlertmanagerConfig(Settings, frozen=True, kw_only=True):
    """Every server is sent every alert; `labels` are added to each."""

    servers: list[RequiredUrl] = msgspec.field(default_factory=list)
    # Source: Prometheus, --rules.alert.resend-delay.
    resend_delay: Interval = Duration(60)
    labels: dict[LabelName, str] = msgspec.field(default_factory=dict)
    http_config: HttpConfig = HttpConfig()

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - own keys alone
        urls = [url_of(server) for server in self.servers]
        for i in range(len(urls)):
            if urls[i] in urls[:i]:
                yield ("servers", i), "the same server is listed twice"


@dataclass(frozen=True, slots=True)
class AlertmanagerServer:
    """One server, with the queue of the outbox that it has."""

    url: str
    config: AlertmanagerConfig
    signal = SIGNAL

    @property
    def queue(self) -> str:
        """Named by the address: unsent alerts follow it when the list changes."""
        parts = urlsplit(url_of(self.url))
        return (
            f"route/alertmanager/{parts.netloc.rpartition('@')[2]}{parts.path.removesuffix(PATH)}"
        )

    def connect(self, clock: Clock, environ: Mapping[str, str]) -> NotificationTransport:
        """ValueError for unusable TLS files."""
        requests = AlertmanagerRequests(self, clock, environ)
        config = self.config.http_config
        return NotificationTransport(shown_url(url_of(self.url)), config, requests.prepare, halved)


def servers_of(config: AlertmanagerConfig) -> Sequence[AlertmanagerServer]:
    return [AlertmanagerServer(url, config) for url in config.servers]


class PostedAlert(msgspec.Struct, omit_defaults=True, rename="camel"):
    """One alert on the wire. `ends_at` empty: it fires, and the end is set when it is sent."""

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    ends_at: str = ""
    generator_url: str = msgspec.field(name="generatorURL", default="")


def posted(alert: Alert, labels: Mapping[str, str], options: MessageOptions) -> PostedAlert:
    """An alert as it waits: identity in labels, everything that may change in annotations."""
    link = alert.finding.link
    return PostedAlert(
        labels={**alert.labels, **labels},
        annotations=annotations_of(alert, options),
        starts_at=iso(alert.starts_s),
        ends_at="" if alert.ends_s is None else iso(alert.ends_s),
        generator_url=link if _is_url(link) else "",
    )


def annotations_of(alert: Alert, options: MessageOptions) -> dict[str, str]:
    """Everything beside the identity; empty ones are left out."""
    finding = alert.finding
    steps = finding.causes[0].next_steps if finding.causes else ()
    found = {
        **finding.annotations,
        "summary": finding.summary,
        "description": text_of(alert, options),
        "value": "" if finding.value is None else number(finding.value),
        "threshold": "" if finding.threshold is None else number(finding.threshold),
        "reason": finding.reason,
        "causes": "; ".join(f"{c.title} ({percent(c.score)})" for c in finding.causes),
        "next_steps": "; ".join(steps),
        **{f"fact_{name}": number(value) for name, value in finding.facts.items()},
    }
    return {name: value for name, value in found.items() if value}


def bodies_of(alerts: Sequence[bytes]) -> Iterator[Body]:
    """Encoded alerts in batches of at most a thousand."""
    for start in range(0, len(alerts), BATCH):
        batch = alerts[start : start + BATCH]
        yield Body.of(SIGNAL, b"[" + b",".join(batch) + b"]", len(batch))


def url_of(server: str) -> str:
    """The URL to post to: the server's address, with or without its path prefix."""
    base, question, query = server.partition("?")
    return f"{base.rstrip('/').removesuffix(PATH)}{PATH}{question}{query}"


class AlertmanagerRequests:
    """Completes a batch: a firing alert lives four re-sendings from the moment when it is sent.

    A batch that waited out an outage would otherwise end its alerts, which fire on.
    """

    def __init__(
        self, server: AlertmanagerServer, clock: Clock, environ: Mapping[str, str]
    ) -> None:
        self._url = url_of(server.url)
        self._lives_s = LIVES * float(server.config.resend_delay)
        self._clock = clock
        self.credentials = Credentials(server.config.http_config, environ)

    def prepare(self, raw: bytes) -> PreparedRequest:
        ends_at = iso(self._clock.now_s() + self._lives_s)
        alerts = decoded(raw)
        for alert in alerts:
            alert.ends_at = alert.ends_at or ends_at
        headers, secrets = self.credentials.headers()
        return PreparedRequest(self._url, msgspec.json.encode(alerts), headers, secrets)


class AlertmanagerSender:
    """Sends to all servers, not to one of them: they find duplicates among themselves.

    While a server is away, what changed waits for it; the repetitions would only be older copies of
    the same and are left out until its queue is empty.
    """

    def __init__(
        self, queues: Sequence[Queue], config: AlertmanagerConfig, options: MessageOptions
    ) -> None:
        self._queues = queues
        self._resend_s = float(config.resend_delay)
        self._labels = config.labels
        self._options = options
        # What was pushed last of each alert: 0.3 ms to make, and sent again every minute.
        self._encoded: dict[str, bytes] = {}
        self._due_s = {queue.exporter: float("-inf") for queue in queues}

    def push(self, alerts: Collection[Alert]) -> None:
        """What has just changed, to everybody."""
        if self._queues and alerts:
            encoded = {alert.id: self._encode(alert) for alert in alerts}
            self._encoded |= encoded
            self._put(self._queues, list(encoded.values()))

    def tick(self, alerts: Collection[Alert], now_s: float) -> None:
        """Everything again, to those whose time has come. A clock that was set back is noticed."""
        due = [
            queue
            for queue in self._queues
            if not len(queue)
            and not self._due_s[queue.exporter] - self._resend_s
            <= now_s
            < self._due_s[queue.exporter]
        ]
        if due:
            known = self._encoded
            self._encoded = {a.id: known.get(a.id) or self._encode(a) for a in alerts}
            self._put(due, list(self._encoded.values()))
        for queue in due:
            self._due_s[queue.exporter] = now_s + self._resend_s

    def _encode(self, alert: Alert) -> bytes:
        return msgspec.json.encode(posted(alert, self._labels, self._options))

    def _put(self, queues: Sequence[Queue], encoded: Sequence[bytes]) -> None:
        for body in bodies_of(encoded):
            for queue in queues:
                queue.put(body, Priority.EVENTS)


def decoded(raw: bytes) -> list[PostedAlert]:
    return msgspec.json.decode(raw, type=list[PostedAlert])


def halved(raw: bytes) -> tuple[bytes, bytes] | None:
    """None for a single alert."""
    alerts: Sequence[PostedAlert] = decoded(raw)
    middle = len(alerts) // 2
    if not middle:
        return None
    return msgspec.json.encode(alerts[:middle]), msgspec.json.encode(alerts[middle:])


def _is_url(link: str) -> bool:
    return urlsplit(link).scheme in ("http", "https") and not any(c.isspace() for c in link)
