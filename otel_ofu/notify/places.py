"""Mistakes in where things go: URLs, secrets, certificates of servers and receivers.

Enters: one server block or receiver. Leaves: mistakes relative to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from otel_ofu.model.labels import is_label_name
from otel_ofu.net.secrets import Secret
from otel_ofu.net.tls import check_tls_files
from otel_ofu.notify import apprise, certificates, webhook
from otel_ofu.notify.alert import iso
from otel_ofu.notify.alertmanager import url_of
from otel_ofu.notify.mistakes import (
    Mistake,
    Steps,
    Surroundings,
    secret_mistakes,
    tried,
    url_mistakes,
    url_problem,
)
from otel_ofu.notify.settings import (
    AlertmanagerConfig,
    AppriseConfig,
    HttpConfig,
    PagerdutyConfig,
    ReceiverConfig,
    WebhookConfig,
)


def alertmanager_mistakes(config: AlertmanagerConfig, around: Surroundings) -> Iterator[Mistake]:
    queues = [url_of(server) for server in config.servers]
    for i, server in enumerate(config.servers):
        yield from url_mistakes(server, ("servers", i))
        if queues[i] in queues[:i]:
            yield ("servers", i), "the same server is there twice"
    for name in config.labels:
        if not is_label_name(name):
            why = f"{name!r} is no label name; allowed: letters, digits and _"
            yield ("labels", name), why
    if config.resend_delay <= 0:
        yield ("resend_delay",), "has to be longer than 0s"
    yield from _at(("http_config",), _http(config.http_config, around))


def receiver_mistakes(receiver: ReceiverConfig, around: Surroundings) -> Iterator[Mistake]:
    for i, hook in enumerate(receiver.webhook_configs):
        yield from _at(("webhook_configs", i), _webhook(hook, around))
    for i, pagerduty in enumerate(receiver.pagerduty_configs):
        yield from _at(("pagerduty_configs", i), _pagerduty(pagerduty, around))
    for i, config in enumerate(receiver.apprise_configs):
        yield from _at(("apprise_configs", i), _apprise(config, around))


def _at(steps: Steps, mistakes: Iterator[Mistake]) -> Iterator[Mistake]:
    return (((*steps, *deeper), why) for deeper, why in mistakes)


def _webhook(config: WebhookConfig, around: Surroundings) -> Iterator[Mistake]:
    given = [key for key in ("url", "url_file", "url_env") if getattr(config, key)]
    if len(given) != 1:
        yield (), f"one of url, url_file and url_env is needed; given: {', '.join(given) or 'none'}"
    elif config.url:
        yield from url_mistakes(config.url, ("url",))
    else:
        yield from secret_mistakes(
            Secret(config.url_file, config.url_env, around.environ), "url", url_problem
        )
    signing = Secret(config.signing_secret_file, config.signing_secret_env, around.environ)
    yield from secret_mistakes(signing, "signing_secret", webhook.signing_problem)
    for name, file in config.headers_files.items():
        yield from tried(Secret(file).read, ("headers_files", name))
    if config.max_alerts < 0:
        yield ("max_alerts",), "has to be 0 (all of them) or more"
    yield from _at(("http_config",), _http(config.http_config, around))


def _pagerduty(config: PagerdutyConfig, around: Surroundings) -> Iterator[Mistake]:
    key = Secret(config.routing_key_file, config.routing_key_env, around.environ)
    if not key.given:
        yield (), "routing_key_file or routing_key_env is needed"
    yield from secret_mistakes(key, "routing_key", _anything)
    yield from url_mistakes(config.url, ("url",))
    yield from _at(("http_config",), _http(config.http_config, around))


def _apprise(config: AppriseConfig, around: Surroundings) -> Iterator[Mistake]:
    url = Secret(config.url_file, config.url_env, around.environ)
    if not url.given:
        yield (), "url_file or url_env is needed: the URL is a secret"
    yield from secret_mistakes(url, "url", apprise.url_problem)


def _http(config: HttpConfig, around: Surroundings) -> Iterator[Mistake]:
    basic, bearer = config.basic_auth, config.authorization
    password = Secret(basic.password_file, basic.password_env, around.environ)
    token = Secret(bearer.credentials_file, bearer.credentials_env, around.environ)
    if password.given and not basic.username:
        yield ("basic_auth",), "a password without a username"
    if basic.username and token.given:
        yield (), "basic_auth and authorization exclude each other"
    yield from _at(("basic_auth",), secret_mistakes(password, "password", _anything))
    yield from _at(("authorization",), secret_mistakes(token, "credentials", _anything))
    if config.timeout <= 0:
        yield ("timeout",), "has to be longer than 0s"
    yield from _at(("tls_config",), _tls(config, around.now_s))


def _tls(config: HttpConfig, now_s: float) -> Iterator[Mistake]:
    tls = config.tls_config
    wrong = list(tried(partial(check_tls_files, tls), ()))
    yield from wrong
    for key in ("cert_file", "ca_file") if not wrong else ():
        path = getattr(tls, key)
        ends = certificates.ends_s(path)[: 1 if key == "cert_file" else None] if path else []
        if ends and max(ends) <= now_s:
            yield (key,), f"{path}: the certificate expired at {iso(max(ends))}"


def _anything(_secret: str) -> str:
    """Nothing is wrong with any of them."""
    return ""
