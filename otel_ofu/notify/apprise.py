"""Chat and mail through Apprise, an optional extra: one URL, one title, one body.

Enters: notifications. Leaves: calls of `Apprise.notify`. Nothing that Apprise logs leaves this
module but for one redacted line about a failure: its records may hold the URL, which is a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import msgspec

from otel_ofu.files.settings import CheckContext, Mistake
from otel_ofu.model.clock import Clock
from otel_ofu.net.secrets import Secret, SecretError, redacted, secrets_of_url
from otel_ofu.net.settings import PasswordFile, secret_mistakes
from otel_ofu.notify.alert import Notification
from otel_ofu.notify.message import MessageOptions, message_of
from otel_ofu.notify.notifier import NotifierConfig
from otel_ofu.notify.template import MessageFormat
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import Delivered, Outcome, Unavailable, short

_MISSING = "not installed: pip install 'otel-ofu[notify]'"
INSTALL = f"Apprise is {_MISSING}"
# Source: Apprise, NotifyType.
_TYPES = {"info": "info", "warning": "warning", "error": "failure", "critical": "failure"}


class AppriseConfig(NotifierConfig, frozen=True, kw_only=True):
    """One Apprise URL: Slack, Teams, mail, ... The whole URL is a secret."""

    url_file: PasswordFile = ""
    url_env: str = ""
    format: MessageFormat = "markdown"

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:
        url = Secret(self.url_file, self.url_env, around.environ)
        if not url.given:
            yield (), "url_file or url_env is needed: the URL is a secret"
        yield from secret_mistakes(url, "url", url_problem)


class AppriseMessage(msgspec.Struct):
    """What waits in the outbox."""

    title: str
    body: str
    format: MessageFormat
    type: str


class AppriseNotifier:
    name = "apprise"
    settings = AppriseConfig

    def encode(
        self, config: AppriseConfig, notification: Notification, options: MessageOptions
    ) -> bytes:
        message = message_of(notification, options, config.format)
        firing = notification.status == "firing"
        kind = _TYPES[notification.alerts[0].finding.severity] if firing else "success"
        return msgspec.json.encode(AppriseMessage(message.title, message.body, config.format, kind))

    def connect(
        self,
        config: AppriseConfig,
        clock: Clock,  # noqa: ARG002 - Apprise has its own
        environ: Mapping[str, str],
    ) -> AppriseTransport:
        return AppriseTransport(config, environ)


def installed() -> bool:
    return find_spec("apprise") is not None


def url_problem(url: str) -> str:
    """Why Apprise cannot use a URL; empty if it can. The URL is not in the answer."""
    if not installed():
        return f"a URL for Apprise, which is {_MISSING}"
    return "" if _service(url) is not None else "a URL that Apprise does not support"


class AppriseTransport:
    """A transport of the outbox. Apprise returns only success or not: a failure is tried again."""

    def __init__(self, config: AppriseConfig, environ: Mapping[str, str]) -> None:
        self._url = Secret(config.url_file, config.url_env, environ)

    @property
    def endpoint(self) -> str:
        return f"the URL of {self._url.origin}"

    def send(self, body: Body, limit_s: float) -> Outcome:  # noqa: ARG002 - Apprise has its own timeouts
        message = msgspec.json.decode(body.raw(), type=AppriseMessage)
        try:
            url = self._url.read()
        except SecretError as error:
            return Unavailable(str(error))
        if not installed():
            return Unavailable(INSTALL)
        with _quiet() as records:
            return self._outcome(message, url, records)

    def halves(self, body: Body) -> tuple[Body, Body] | None:  # noqa: ARG002 - a message is one
        return None

    def close(self) -> None: ...

    def _outcome(self, message: AppriseMessage, url: str, records: list[str]) -> Outcome:
        service = _service(url)
        if service is None:
            return Unavailable(f"{self._url.origin} holds a URL that Apprise does not support")
        try:
            taken = _notify(service, message)
        except Exception as error:  # noqa: BLE001 - 170 plugins; the text may hold the URL
            return Unavailable(f"Apprise failed ({type(error).__name__})")
        if taken:
            return Delivered()
        why = redacted(" ".join(records[-1:]), secrets_of_url(url))
        return Unavailable(short(f"not taken: {why}" if why else "not taken"))


def _service(url: str) -> Any:  # noqa: ANN401 - of a library that is not always there
    """Apprise's plugin for a URL; None for a URL that it does not know."""
    import apprise  # noqa: PLC0415 - 0.3 s to 1.3 s, and an extra

    with _quiet():
        return apprise.Apprise.instantiate(url, suppress_exceptions=True)


def _notify(service: Any, message: AppriseMessage) -> bool:  # noqa: ANN401 - as above
    import apprise  # noqa: PLC0415 - as above

    sender = apprise.Apprise()
    sender.add(service)
    return bool(
        sender.notify(
            title=message.title,
            body=message.body,
            body_format=message.format,
            notify_type=message.type,
        )
    )


class _Kept(logging.Handler):
    """Keeps the messages of warnings, and shows nobody anything."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """What Apprise and the libraries under it log may name the URL: it goes into the list alone."""
    messages: list[str] = []
    logger, handler = logging.getLogger("apprise"), _Kept(messages)
    logger.addHandler(handler)
    logger.propagate = False
    for library in ("urllib3", "requests_oauthlib", "oauthlib"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
