"""PagerDuty, Events API v2: one incident for a group, triggered, updated and resolved.

Enters: notifications. Leaves: events; POST /v2/enqueue with the routing key put in when it is sent.
Source: https://developer.pagerduty.com/docs/events-api-v2-overview
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from otel_ofu.files.settings import CheckContext, Mistake
from otel_ofu.model import Severity
from otel_ofu.model.clock import Clock
from otel_ofu.net.secrets import Secret, shown_url
from otel_ofu.net.settings import PasswordFile, RequiredUrl, secret_mistakes
from otel_ofu.notify.alert import Notification, iso
from otel_ofu.notify.http import Credentials, HttpConfig, NotificationTransport, PreparedRequest
from otel_ofu.notify.message import MessageOptions, message_of
from otel_ofu.notify.notifier import NotifierConfig

# Source: the same page: a summary has at most 1024 characters.
MOST_SUMMARY = 1024
# An event may have 512 KB; the rest is room for the frame and for escapes.
MOST_DETAILS = 200_000
CLIENT = "otel-ofu"


PagerdutySeverity = Literal["critical", "error", "warning", "info"]


class PagerdutyConfig(NotifierConfig, frozen=True, kw_only=True):
    """`severities`: our severities as PagerDuty's, where they are to differ."""

    routing_key_file: PasswordFile = ""
    routing_key_env: str = ""
    url: RequiredUrl = "https://events.pagerduty.com/v2/enqueue"
    severities: dict[Severity, PagerdutySeverity] = msgspec.field(default_factory=dict)
    http_config: HttpConfig = HttpConfig()

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:
        key = Secret(self.routing_key_file, self.routing_key_env, around.environ)
        if not key.given:
            yield (), "routing_key_file or routing_key_env is needed"
        yield from secret_mistakes(key, "routing_key")


class PagerdutyNotifier:
    name = "pagerduty"
    settings = PagerdutyConfig

    def encode(
        self, config: PagerdutyConfig, notification: Notification, options: MessageOptions
    ) -> bytes:
        return msgspec.json.encode(event_of(notification, config, options))

    def connect(
        self,
        config: PagerdutyConfig,
        clock: Clock,  # noqa: ARG002 - events have no time of sending
        environ: Mapping[str, str],
    ) -> NotificationTransport:
        prepare = PagerdutyRequests(config, environ).prepare
        return NotificationTransport(shown_url(config.url), config.http_config, prepare)


def dedup_key(group_key: str) -> str:
    """At most 255 characters; the same for all notifications of one group."""
    return hashlib.sha256(group_key.encode("utf-8", "replace")).hexdigest()


def event_of(
    notification: Notification, config: PagerdutyConfig, options: MessageOptions
) -> dict[str, Any]:
    """The event without its routing key, which does not wait on the disk."""
    firing = notification.status == "firing"
    event: dict[str, Any] = {
        "event_action": "trigger" if firing else "resolve",
        "dedup_key": dedup_key(notification.group_key),
    }
    if not firing:
        return event
    worst = notification.alerts[0]
    links = [{"href": link, "text": "More"} for link in [worst.finding.link] if link]
    return {
        **event,
        "client": CLIENT,
        **({"client_url": options.external_url} if options.external_url else {}),
        **({"links": links} if links else {}),
        "payload": _payload(notification, config, options),
    }


class PagerdutyRequests:
    """Puts the routing key in, read anew for each request."""

    def __init__(self, config: PagerdutyConfig, environ: Mapping[str, str]) -> None:
        self._url = config.url
        self.key = Secret(config.routing_key_file, config.routing_key_env, environ)
        self.credentials = Credentials(config.http_config, environ)

    def prepare(self, raw: bytes) -> PreparedRequest:
        key = self.key.read()
        event = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        event["routing_key"] = msgspec.Raw(msgspec.json.encode(key))
        headers, secrets = self.credentials.headers()
        return PreparedRequest(self._url, msgspec.json.encode(event), headers, (key, *secrets))


def _payload(
    notification: Notification, config: PagerdutyConfig, options: MessageOptions
) -> dict[str, Any]:
    worst = notification.alerts[0]
    labels = worst.labels
    message = message_of(notification, options, "text")
    severity = worst.finding.severity
    return {
        "summary": message.title[:MOST_SUMMARY],
        "source": labels.get("host_name") or labels.get("ofu_job_id") or CLIENT,
        "severity": config.severities.get(severity, severity),
        "timestamp": iso(worst.starts_s),
        "component": labels.get("hw_id", ""),
        "group": labels.get("ofu_job_id", ""),
        "class": worst.finding.rule,
        "custom_details": {
            "message": message.body[:MOST_DETAILS],
            "num_firing": len(notification.firing),
            "num_resolved": len(notification.alerts) - len(notification.firing),
            "labels": dict(labels),
            "facts": dict(worst.finding.facts),
        },
    }
