"""Chat and mail through Apprise, an optional extra: one URL, one title, one body.

Enters: notifications. Leaves: calls of `Apprise.notify`. Nothing that Apprise logs leaves this
module but for one redacted line about a failure: its records may hold the URL, which is a secret.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import msgspec

from otel_ofu.net.secrets import Secret, SecretError, redacted, secrets_of_url
from otel_ofu.notify.markup import Form
from otel_ofu.notify.message import MessageOptions, message_of
from otel_ofu.notify.notification import Notification
from otel_ofu.notify.settings import AppriseConfig
from otel_ofu.outbox.body import Body
from otel_ofu.outbox.outcome import Delivered, Outcome, Unavailable, short

_MISSING = "not installed: pip install 'otel-ofu[notify]'"
INSTALL = f"Apprise is {_MISSING}"
_TYPES = {"info": "info", "warning": "warning", "error": "failure", "critical": "failure"}


class Letter(msgspec.Struct):
    """What waits in the outbox."""

    title: str
    body: str
    format: Form
    type: str


def encoder(config: AppriseConfig, options: MessageOptions) -> Callable[[Notification], bytes]:
    def encode(notification: Notification) -> bytes:
        message = message_of(notification, options, config.format)
        firing = notification.status == "firing"
        kind = _TYPES[notification.alerts[0].diagnosis.severity] if firing else "success"
        return msgspec.json.encode(Letter(message.title, message.body, config.format, kind))

    return encode


def installed() -> bool:
    return find_spec("apprise") is not None


def url_problem(url: str) -> str:
    """Why Apprise can make nothing of a URL; empty if it can. The URL is not in the answer."""
    if not installed():
        return f"a URL for Apprise, which is {_MISSING}"
    return "" if _service(url) is not None else "no URL that Apprise knows"


class AppriseDelivery:
    """A transport of the outbox. Apprise tells only whether it worked: a failure is tried again."""

    def __init__(self, config: AppriseConfig, environ: Mapping[str, str]) -> None:
        self._url = Secret(config.url_file, config.url_env, environ)

    @property
    def place(self) -> str:
        return f"the URL of {self._url.place}"

    def send(self, body: Body, limit_s: float) -> Outcome:  # noqa: ARG002 - Apprise has its own timeouts
        letter = msgspec.json.decode(body.raw(), type=Letter)
        try:
            url = self._url.read()
        except SecretError as error:
            return Unavailable(str(error))
        if not installed():
            return Unavailable(INSTALL)
        with _quiet() as records:
            return self._judged(letter, url, records)

    def halves(self, body: Body) -> tuple[Body, Body] | None:  # noqa: ARG002 - one letter is one
        return None

    def close(self) -> None: ...

    def _judged(self, letter: Letter, url: str, records: list[str]) -> Outcome:
        service = _service(url)
        if service is None:
            return Unavailable(f"{self._url.place} holds no URL that Apprise knows")
        try:
            taken = _notify(service, letter)
        except Exception as error:  # noqa: BLE001 - 170 plugins; the words may hold the URL
            return Unavailable(f"Apprise failed ({type(error).__name__})")
        if taken:
            return Delivered()
        why = redacted(" ".join(records[-1:]), secrets_of_url(url))
        return Unavailable(short(f"not taken: {why}" if why else "not taken"))


def _service(url: str) -> Any:  # noqa: ANN401 - of a library that is not always there
    """The plugin for a URL; None if there is none."""
    import apprise  # noqa: PLC0415 - 0.3 s to 1.3 s, and an extra

    with _quiet():
        return apprise.Apprise.instantiate(url, suppress_exceptions=True)


def _notify(service: Any, letter: Letter) -> bool:  # noqa: ANN401 - as above
    import apprise  # noqa: PLC0415 - as above

    sender = apprise.Apprise()
    sender.add(service)
    return bool(
        sender.notify(
            title=letter.title,
            body=letter.body,
            body_format=letter.format,
            notify_type=letter.type,
        )
    )


class _Kept(logging.Handler):
    """Keeps the words of warnings, and shows nobody anything."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._words = words

    def emit(self, record: logging.LogRecord) -> None:
        self._words.append(record.getMessage())


@contextmanager
def _quiet() -> Iterator[list[str]]:
    """What Apprise and the libraries under it log may name the URL: it goes into the list alone."""
    words: list[str] = []
    logger, handler = logging.getLogger("apprise"), _Kept(words)
    logger.addHandler(handler)
    logger.propagate = False
    for library in ("urllib3", "requests_oauthlib", "oauthlib"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    try:
        yield words
    finally:
        logger.removeHandler(handler)
