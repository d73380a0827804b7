"""Notifications by HTTP: posts with secrets that are read at the last moment.

Enters: the block `http_config`, bodies of the outbox. Leaves: outcomes whose messages hold no
secret; mistakes in the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import msgspec

from otel_ofu.files.settings import (
    YEAR,
    CheckContext,
    Duration,
    Mistake,
    QuantityRange,
    Settings,
    tried,
)
from otel_ofu.net.http_client import Response
from otel_ofu.net.secrets import Secret, SecretError, basic_credentials, redacted
from otel_ofu.net.settings import PasswordFile, secret_mistakes
from otel_ofu.net.tls import TlsFiles, certificate_ends_s, check_tls_files
from otel_ofu.notify.alert import iso
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import (
    Delivered,
    Outcome,
    Poster,
    Refused,
    TooLarge,
    Unavailable,
    requested_delay_s,
    short,
)

Interval = Annotated[Duration, QuantityRange(Duration(0.001), YEAR)]
"""Between two sendings; Alertmanager refuses 0 as well."""
_TOO_LARGE = 413
# These are about the way or a credential, which somebody will mend, and not about the message.
_MENDABLE = (401, 403, 404, 405, 407, 408, 421, 423, 425, 429)
_SERVER_ERROR = 500


class BasicAuth(Settings, frozen=True, kw_only=True):
    username: str = ""
    password_file: PasswordFile = ""
    password_env: str = ""

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:
        password = Secret(self.password_file, self.password_env, around.environ)
        if password.given and not self.username:
            yield (), "a password without a username"
        yield from secret_mistakes(password, "password")


class Authorization(Settings, frozen=True, kw_only=True):
    """A bearer token."""

    credentials_file: PasswordFile = ""
    credentials_env: str = ""

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:
        token = Secret(self.credentials_file, self.credentials_env, around.environ)
        yield from secret_mistakes(token, "credentials")


class HttpConfig(Settings, frozen=True, kw_only=True):
    # Source: Prometheus, alertmanager_config: timeout.
    timeout: Annotated[Duration, QuantityRange(Duration(0.001), Duration(3600))] = Duration(10)
    basic_auth: BasicAuth = BasicAuth()
    authorization: Authorization = Authorization()
    tls_config: TlsFiles = TlsFiles()

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:
        token = self.authorization
        if self.basic_auth.username and (token.credentials_file or token.credentials_env):
            yield (), "basic_auth and authorization exclude each other"
        for steps, why in _expired(self.tls_config, around.now_s):
            yield ("tls_config", *steps), why


def _expired(tls: TlsFiles, now_s: float) -> Iterator[Mistake]:
    unusable = any(tried(partial(check_tls_files, tls), ()))  # a mistake of the block itself
    for key in ("cert_file", "ca_file") if not unusable else ():
        path = getattr(tls, key)
        ends = certificate_ends_s(path)[: 1 if key == "cert_file" else None] if path else []
        if ends and max(ends) <= now_s:
            yield (key,), f"{path}: the certificate expired at {iso(max(ends))}"


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """`secrets` are what of it may appear in no text."""

    url: str
    raw: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


Prepare = Callable[[bytes], PreparedRequest]
"""The request for a body. SecretError if a secret is missing, MsgspecError for a broken body."""

Halve = Callable[[bytes], tuple[bytes, bytes] | None]


class Credentials:
    """The Authorization header of an `http_config`, read anew for each request."""

    def __init__(self, config: HttpConfig, environ: Mapping[str, str]) -> None:
        basic, bearer = config.basic_auth, config.authorization
        self._username = basic.username
        self._password = Secret(basic.password_file, basic.password_env, environ)
        self._token = Secret(bearer.credentials_file, bearer.credentials_env, environ)

    def headers(self) -> tuple[dict[str, str], tuple[str, ...]]:
        """The header and its secrets. SecretError if one is missing."""
        if self._token.given:
            token = self._token.read()
            return {"Authorization": f"Bearer {token}"}, (token,)
        if not self._username:
            return {}, ()
        password = self._password.read() if self._password.given else ""
        pair = basic_credentials(self._username, password)
        return {"Authorization": f"Basic {pair}"}, (password, pair)


class NotificationTransport:
    """A transport of the outbox. ValueError at once for unusable TLS files.

    A redirect is neither followed nor a success: like a wrong password or a server in trouble it is
    tried again, until the message is too old. Only an answer about the message itself refuses it.
    """

    def __init__(
        self, endpoint: str, config: HttpConfig, prepare: Prepare, halve: Halve | None = None
    ) -> None:
        self._endpoint = endpoint
        self._timeout_s = float(config.timeout)
        self._poster = Poster(config.tls_config)
        self._prepare = prepare
        self._halve = halve

    @property
    def endpoint(self) -> str:
        return self._endpoint

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
        return _outcome(answer, request.secrets)

    def halves(self, body: Body) -> tuple[Body, Body] | None:
        parts = self._halve(body.raw()) if self._halve else None
        if parts is None:
            return None
        few, signal = body.points // 2, body.signal
        return Body.of(signal, parts[0], few), Body.of(signal, parts[1], body.points - few)

    def close(self) -> None:
        self._poster.close()


def _outcome(answer: Response, secrets: tuple[str, ...]) -> Outcome:
    if answer.is_success:
        return Delivered()
    if answer.is_redirect:
        target = redacted(answer.location or "nowhere", secrets)
        return Unavailable(short(f"HTTP {answer.status}, a redirect to {target}; not followed"))
    message = _message(answer, secrets)
    if answer.status == _TOO_LARGE:
        return TooLarge(message)
    if answer.status in _MENDABLE or answer.status >= _SERVER_ERROR:
        return Unavailable(message, requested_delay_s(answer))
    return Refused(message)


def _message(answer: Response, secrets: tuple[str, ...]) -> str:
    text = answer.text.strip()
    head = f"HTTP {answer.status_line}"
    return short(redacted(f"{head}: {text}" if text else head, secrets))
