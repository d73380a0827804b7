"""What a notifier is: one way to notify people, built in or of another package.

Enters: a block of `<name>_configs` of a receiver. Leaves: bytes that wait in the outbox, and the
transport that takes them. A package with a notifier needs this module alone; docs/plugins.md shows
one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from otel_ofu.files.settings import CheckContext, Mistake, Settings
from otel_ofu.model.clock import Clock
from otel_ofu.net.secrets import Secret, SecretError
from otel_ofu.notify.alert import Notification
from otel_ofu.notify.message import MessageOptions, message_of
from otel_ofu.outbox.batch import Body
from otel_ofu.outbox.outcome import Delivered, Outcome, Refused, TooLarge, Transport, Unavailable

__all__ = [
    "Body",
    "CheckContext",
    "Clock",
    "Delivered",
    "MessageOptions",
    "Mistake",
    "Notification",
    "Notifier",
    "NotifierConfig",
    "Outcome",
    "Refused",
    "Secret",
    "SecretError",
    "TooLarge",
    "Transport",
    "Unavailable",
    "message_of",
]


class NotifierConfig(Settings, frozen=True, kw_only=True):
    """The block of a notifier, which has more keys; its `mistakes` are what is wrong with them."""

    send_resolved: bool = True


class Notifier(Protocol):
    """`name` makes the key `<name>_configs` and the names of queues; `settings` is its block.

    `config` is always a value of `settings`. `encode` makes what waits on the disk, so it is to
    hold no secret; `connect` makes what sends it, and opens nothing before the first `send`.
    ValueError or OSError for unusable files.
    """

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> type[NotifierConfig]: ...

    def encode(
        self,
        config: Any,  # noqa: ANN401 - of the type in `settings`
        notification: Notification,
        options: MessageOptions,
    ) -> bytes: ...

    def connect(
        self,
        config: Any,  # noqa: ANN401 - as above
        clock: Clock,
        environ: Mapping[str, str],
    ) -> Transport: ...
