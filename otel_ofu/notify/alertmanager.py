"""Alerts for Alertmanager: encoded in batches, completed and posted to one server.

Enters: alerts. Leaves: bodies for the outbox; POST /api/v2/alerts.
Source: https://prometheus.io/docs/alerting/latest/alerts_api, Alertmanager API v2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from otel_ofu.model.clock import Clock
from otel_ofu.net.secrets import place_of_url
from otel_ofu.notify import words
from otel_ofu.notify.alert import Alert, iso
from otel_ofu.notify.http import Credentials, HttpDelivery, Request
from otel_ofu.notify.message import MessageOptions, text_of
from otel_ofu.notify.settings import AlertmanagerConfig
from otel_ofu.outbox.body import Body

SIGNAL = "alerts"
BATCH = 1000
PATH = "/api/v2/alerts"
# Prometheus gives an alert four times the interval of its re-sending to live; with less Grafana's
# flapped. Source: https://github.com/grafana/grafana/pull/38648
LIVES = 4


class PostedAlert(msgspec.Struct, omit_defaults=True, rename="camel"):
    """One alert on the wire. `ends_at` empty: it fires, and the end is set when it is sent."""

    labels: dict[str, str]
    annotations: dict[str, str]
    starts_at: str
    ends_at: str = ""
    generator_url: str = msgspec.field(name="generatorURL", default="")


def posted(alert: Alert, labels: Mapping[str, str], options: MessageOptions) -> PostedAlert:
    """An alert as it waits: identity in labels, everything that may change in annotations."""
    link = alert.diagnosis.link
    return PostedAlert(
        labels={**alert.labels, **labels},
        annotations=annotations_of(alert, options),
        starts_at=iso(alert.starts_s),
        ends_at="" if alert.ends_s is None else iso(alert.ends_s),
        generator_url=link if _is_url(link) else "",
    )


def annotations_of(alert: Alert, options: MessageOptions) -> dict[str, str]:
    """What is told beside the identity; empty ones are left out."""
    said = alert.diagnosis
    steps = said.causes[0].next_steps if said.causes else ()
    found = {
        **said.annotations,
        "summary": said.summary,
        "description": text_of(alert, options),
        "value": "" if said.value is None else words.number(said.value),
        "threshold": "" if said.threshold is None else words.number(said.threshold),
        "reason": said.reason,
        "causes": "; ".join(f"{c.title} ({words.percent(c.score)})" for c in said.causes),
        "next_steps": "; ".join(steps),
        **{f"fact_{name}": words.number(value) for name, value in said.facts.items()},
    }
    return {name: text for name, text in found.items() if text}


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

    A batch that waited out an outage would otherwise say that its alerts have ended meanwhile.
    """

    def __init__(
        self, server: str, config: AlertmanagerConfig, clock: Clock, environ: Mapping[str, str]
    ) -> None:
        self._url = url_of(server)
        self._lives_s = LIVES * float(config.resend_delay)
        self._clock = clock
        self.credentials = Credentials(config.http_config, environ)

    def prepare(self, raw: bytes) -> Request:
        ends_at = iso(self._clock.now_s() + self._lives_s)
        alerts = decoded(raw)
        for alert in alerts:
            alert.ends_at = alert.ends_at or ends_at
        headers, secrets = self.credentials.headers()
        return Request(self._url, msgspec.json.encode(alerts), headers, secrets)


def delivery_to(
    server: str, config: AlertmanagerConfig, clock: Clock, environ: Mapping[str, str]
) -> HttpDelivery:
    """ValueError for TLS files that are no use."""
    requests = AlertmanagerRequests(server, config, clock, environ)
    place = place_of_url(url_of(server))
    return HttpDelivery(place, config.http_config, requests.prepare, halved)


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
