"""Webhooks in Alertmanager's shape, version 4, signed as Standard Webhooks has it.

Enters: notifications. Leaves: JSON; POST with `webhook-id`, `webhook-timestamp` and
`webhook-signature` (HMAC-SHA256 over id, time and body) where there is a secret.
Source: https://prometheus.io/docs/alerting/latest/configuration/#webhook_config,
https://www.standardwebhooks.com (symmetric signatures, v1).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec

from otel_ofu.files.settings import CheckContext, Mistake, ParsedText, QuantityRange
from otel_ofu.model.clock import Clock
from otel_ofu.net.secrets import Secret, SecretError, secrets_of_url, shown_url
from otel_ofu.net.settings import PasswordFile, parse_url, secret_mistakes, url_problem
from otel_ofu.notify.alert import Alert, Notification, common, iso
from otel_ofu.notify.alertmanager import annotations_of
from otel_ofu.notify.http import Credentials, HttpConfig, NotificationTransport, PreparedRequest
from otel_ofu.notify.message import MessageOptions
from otel_ofu.notify.notifier import NotifierConfig

# Go's zero time, which Alertmanager's webhook has for an alert that still fires.
_NO_TIME = "0001-01-01T00:00:00Z"
_SECRET_PREFIX = "whsec_"  # noqa: S105 - how Standard Webhooks marks a secret in base64


class WebhookConfig(NotifierConfig, frozen=True, kw_only=True):
    """`max_alerts` 0: all of them."""

    url: Annotated[str, ParsedText(parse_url)] = ""
    url_file: PasswordFile = ""
    url_env: str = ""
    max_alerts: Annotated[int, QuantityRange(0, 1_000_000)] = 0
    signing_secret_file: PasswordFile = ""
    signing_secret_env: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    headers_files: dict[str, PasswordFile] = msgspec.field(default_factory=dict)
    http_config: HttpConfig = HttpConfig()

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:
        given = [key for key in ("url", "url_file", "url_env") if getattr(self, key)]
        if len(given) != 1:
            found = ", ".join(given) or "none"
            yield (), f"one of url, url_file and url_env is needed; given: {found}"
        elif not self.url:
            url = Secret(self.url_file, self.url_env, around.environ)
            yield from secret_mistakes(url, "url", url_problem)
        signing = Secret(self.signing_secret_file, self.signing_secret_env, around.environ)
        yield from secret_mistakes(signing, "signing_secret", signing_problem)


class WebhookNotifier:
    name = "webhook"
    settings = WebhookConfig

    def encode(
        self, config: WebhookConfig, notification: Notification, options: MessageOptions
    ) -> bytes:
        return _wrapped(notification.id, payload_of(notification, options, config.max_alerts))

    def connect(
        self, config: WebhookConfig, clock: Clock, environ: Mapping[str, str]
    ) -> NotificationTransport:
        requests = WebhookRequests(config, clock, environ)
        return NotificationTransport(
            requests.endpoint, config.http_config, requests.prepare, halved
        )


class WebhookAlert(msgspec.Struct, rename="camel"):
    status: str
    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    ends_at: str
    fingerprint: str
    generator_url: str = msgspec.field(name="generatorURL", default="")


class Payload(msgspec.Struct, rename="camel"):
    """What a receiver of Alertmanager's webhooks knows."""

    version: str
    group_key: str
    truncated_alerts: int
    status: str
    receiver: str
    group_labels: dict[str, str]
    common_labels: dict[str, str]
    common_annotations: dict[str, str]
    alerts: list[WebhookAlert]
    external_url: str = msgspec.field(name="externalURL", default="")


class Envelope(msgspec.Struct):
    """What waits in the outbox: the id stays the same however often it is sent."""

    id: str
    payload: msgspec.Raw


def payload_of(notification: Notification, options: MessageOptions, max_alerts: int = 0) -> Payload:
    """`max_alerts` 0: all of them; else so many, and how many more there are."""
    shown = notification.alerts[:max_alerts] if max_alerts else notification.alerts
    alerts = [_alert(alert, options) for alert in shown]
    return Payload(
        version="4",
        group_key=notification.group_key,
        truncated_alerts=len(notification.alerts) - len(shown),
        status=notification.status,
        receiver=notification.receiver,
        group_labels=dict(notification.group_labels),
        common_labels=common([a.labels for a in notification.alerts]),
        common_annotations=common([a.annotations for a in alerts]),
        alerts=alerts,
        external_url=options.external_url,
    )


def halved(raw: bytes) -> tuple[bytes, bytes] | None:
    """Two messages with half of the alerts each, for a receiver that takes no larger ones."""
    envelope = msgspec.json.decode(raw, type=Envelope)
    payload = msgspec.json.decode(envelope.payload, type=Payload)
    middle = len(payload.alerts) // 2
    if not middle:
        return None
    halves = (payload.alerts[:middle], payload.alerts[middle:])
    first, second = (
        _wrapped(f"{envelope.id}.{i}", msgspec.structs.replace(payload, alerts=alerts))
        for i, alerts in enumerate(halves)
    )
    return first, second


def signature(secret: str, id_: str, timestamp_s: int, payload: bytes) -> str:
    """`v1,` and the HMAC-SHA256 in base64. A secret `whsec_…` is base64, any other the bytes."""
    key = (
        base64.b64decode(secret.removeprefix(_SECRET_PREFIX))
        if secret.startswith(_SECRET_PREFIX)
        else secret.encode()
    )
    signed = f"{id_}.{timestamp_s}.".encode() + payload
    return "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()


def signing_problem(secret: str) -> str:
    """What is wrong with a signing secret, without its text; empty if nothing is."""
    try:
        signature(secret, "", 0, b"")
    except ValueError:
        return "no valid base64 after whsec_"
    return ""


class WebhookRequests:
    """Reads URL, secrets and credentials for each request: a file may change while it waits."""

    def __init__(self, config: WebhookConfig, clock: Clock, environ: Mapping[str, str]) -> None:
        self._config = config
        self._clock = clock
        self.url = Secret(config.url_file, config.url_env, environ)
        self.signing = Secret(config.signing_secret_file, config.signing_secret_env, environ)
        self.headers = {n: Secret(file) for n, file in config.headers_files.items()}
        self.credentials = Credentials(config.http_config, environ)

    @property
    def endpoint(self) -> str:
        return f"the URL of {self.url.origin}" if self.url.given else shown_url(self._config.url)

    def prepare(self, raw: bytes) -> PreparedRequest:
        envelope = msgspec.json.decode(raw, type=Envelope)
        payload = bytes(envelope.payload)
        url = self.url.read() if self.url.given else self._config.url
        hidden = secrets_of_url(url) if self.url.given else [url.partition("?")[2]]
        own = {name: secret.read() for name, secret in self.headers.items()}
        authorization, secrets = self.credentials.headers()
        headers = {**self._config.headers, **own, **authorization}
        signed, key = self._signed(envelope.id, payload)
        return PreparedRequest(
            url, payload, {**headers, **signed}, (*hidden, *own.values(), *secrets, *key)
        )

    def _signed(self, id_: str, payload: bytes) -> tuple[dict[str, str], tuple[str, ...]]:
        headers = {"webhook-id": id_}
        if not self.signing.given:
            return headers, ()
        secret, now_s = self.signing.read(), int(self._clock.now_s())
        headers["webhook-timestamp"] = str(now_s)
        try:
            headers["webhook-signature"] = signature(secret, id_, now_s, payload)
        except ValueError:
            raise SecretError(f"{self.signing.origin}: {signing_problem(secret)}") from None
        return headers, (secret,)


def _wrapped(id_: str, payload: Payload) -> bytes:
    return msgspec.json.encode(Envelope(id_, msgspec.Raw(msgspec.json.encode(payload))))


def _alert(alert: Alert, options: MessageOptions) -> WebhookAlert:
    return WebhookAlert(
        status="firing" if alert.firing else "resolved",
        labels=dict(alert.labels),
        annotations=annotations_of(alert, options),
        starts_at=iso(alert.starts_s),
        ends_at=_NO_TIME if alert.ends_s is None else iso(alert.ends_s),
        fingerprint=alert.finding.fingerprint,
        generator_url=alert.finding.link,
    )
