"""Notifications as lines of JSON on standard output, for scripts.

Enters: notifications. Leaves: one line each, in the shape of the webhook.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TextIO

import msgspec

from otel_ofu.model.clock import Clock
from otel_ofu.notify.alert import Notification
from otel_ofu.notify.message import MessageOptions
from otel_ofu.notify.notifier import NotifierConfig
from otel_ofu.notify.webhook import payload_of
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import Delivered, Outcome, Unavailable


class StdoutConfig(NotifierConfig, frozen=True, kw_only=True):
    """One line of JSON for each notification, in the shape of the webhook."""


class StdoutNotifier:
    name = "stdout"
    settings = StdoutConfig

    def encode(
        self,
        config: StdoutConfig,  # noqa: ARG002 - it has no keys
        notification: Notification,
        options: MessageOptions,
    ) -> bytes:
        return msgspec.json.encode(payload_of(notification, options))

    def connect(
        self,
        config: StdoutConfig,  # noqa: ARG002 - as above
        clock: Clock,  # noqa: ARG002 - nothing expires
        environ: Mapping[str, str],  # noqa: ARG002 - no secrets
    ) -> StdoutTransport:
        return StdoutTransport()


class StdoutTransport:
    """A transport of the outbox. `stream` None: standard output as it is at the time."""

    endpoint = "standard output"

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def send(self, body: Body, limit_s: float) -> Outcome:  # noqa: ARG002 - a pipe has no timeout
        stream = self._stream or sys.stdout
        try:
            stream.write(body.raw().decode("utf-8") + "\n")
            stream.flush()
        except (OSError, ValueError) as error:  # ValueError: closed
            return Unavailable(str(error))
        return Delivered()

    def halves(self, body: Body) -> tuple[Body, Body] | None:  # noqa: ARG002 - one line is one
        return None

    def close(self) -> None: ...
