"""Delivery by HTTP: posts with secrets that are read at the last moment, and says what came of it.

Enters: bodies of the outbox. Leaves: outcomes whose words hold no secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from otel_ofu.net.http_client import Response
from otel_ofu.net.secrets import Secret, SecretError, basic_credentials, redacted
from otel_ofu.notify.settings import HttpConfig
from otel_ofu.outbox.body import Body
from otel_ofu.outbox.outcome import Delivered, Outcome, Refused, TooLarge, Unavailable, short
from otel_ofu.outbox.posting import Poster, asked_delay_s

_TOO_LARGE = 413
# These speak of the way or of a credential, which somebody will mend, and not of the message.
_MENDABLE = (401, 403, 404, 405, 407, 408, 421, 423, 425, 429)
_SERVER_ERROR = 500

NOTIFICATION = "notification"
"""The `signal` of bodies that hold one notification; messages and limits name it."""


@dataclass(frozen=True, slots=True)
class Request:
    """`secrets` are what of it may appear in no text."""

    url: str
    raw: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


Prepare = Callable[[bytes], Request]
"""The request for a body. SecretError if a secret is not there, MsgspecError for a broken body."""

Halve = Callable[[bytes], tuple[bytes, bytes] | None]


class Credentials:
    """The Authorization header of an `http_config`, read anew for each request."""

    def __init__(self, config: HttpConfig, environ: Mapping[str, str]) -> None:
        basic, bearer = config.basic_auth, config.authorization
        self._username = basic.username
        self._password = Secret(basic.password_file, basic.password_env, environ)
        self._token = Secret(bearer.credentials_file, bearer.credentials_env, environ)

    @property
    def secrets(self) -> list[Secret]:
        return [secret for secret in (self._password, self._token) if secret.given]

    def headers(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """The header and its secrets. SecretError if one is not there."""
        if self._token.given:
            token = self._token.read()
            return {"Authorization": f"Bearer {token}"}, (token,)
        if not self._username:
            return {}, ()
        password = self._password.read() if self._password.given else ""
        pair = basic_credentials(self._username, password)
        return {"Authorization": f"Basic {pair}"}, (password, pair)


class HttpDelivery:
    """A transport of the outbox. ValueError at once for TLS files that cannot be used.

    A redirect is not followed, and no success: like a wrong password or a server in trouble it is
    tried again, until the message is too old. Only an answer about the message itself refuses it.
    """

    def __init__(
        self, place: str, config: HttpConfig, prepare: Prepare, halve: Halve | None = None
    ) -> None:
        self._place = place
        self._timeout_s = float(config.timeout)
        self._poster = Poster(config.tls_config)
        self._prepare = prepare
        self._halve = halve

    @property
    def place(self) -> str:
        return self._place

    def send(self, body: Body, limit_s: float) -> Outcome:
        try:
            request = self._prepare(body.raw())
        except SecretError as error:
            return Unavailable(str(error))
        except msgspec.MsgspecError as error:
            return Refused(f"the kept message cannot be read: {type(error).__name__}")
        timeout_s = min(limit_s, self._timeout_s)
        headers = {"Content-Type": "application/json", **request.headers}
        answer = self._poster.post(request.url, request.raw, headers, timeout_s)
        if isinstance(answer, Unavailable):
            return Unavailable(short(redacted(answer.message, request.secrets)), answer.after_s)
        return _judged(answer, request.secrets)

    def halves(self, body: Body) -> tuple[Body, Body] | None:
        parts = self._halve(body.raw()) if self._halve else None
        if parts is None:
            return None
        few, signal = body.points // 2, body.signal
        return Body.of(signal, parts[0], few), Body.of(signal, parts[1], body.points - few)

    def close(self) -> None:
        self._poster.close()


def _judged(answer: Response, secrets: tuple[str, ...]) -> Outcome:
    if answer.is_success:
        return Delivered()
    if answer.is_redirect:
        target = redacted(answer.location or "nowhere", secrets)
        return Unavailable(short(f"HTTP {answer.status}, a redirect to {target}; not followed"))
    message = _said(answer, secrets)
    if answer.status == _TOO_LARGE:
        return TooLarge(message)
    if answer.status in _MENDABLE or answer.status >= _SERVER_ERROR:
        return Unavailable(message, asked_delay_s(answer))
    return Refused(message)


def _said(answer: Response, secrets: tuple[str, ...]) -> str:
    text = answer.text.strip()
    head = f"HTTP {answer.status_line}"
    return short(redacted(f"{head}: {text}" if text else head, secrets))
