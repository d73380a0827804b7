"""All notifiers: those built in, and those of other packages that a configuration names.

Enters: the plain YAML data of the block `route`. Leaves: the types that read it, and for a receiver
the notifiers that it has. A notifier that is added is one module and one row here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

import msgspec

from otel_ofu.files.settings import Settings
from otel_ofu.notify.apprise import AppriseNotifier
from otel_ofu.notify.notifier import Notifier, NotifierConfig
from otel_ofu.notify.pagerduty import PagerdutyNotifier
from otel_ofu.notify.stdout import StdoutNotifier
from otel_ofu.notify.webhook import WebhookNotifier

BUILT_IN: Sequence[Notifier] = (
    WebhookNotifier(),
    PagerdutyNotifier(),
    AppriseNotifier(),
    StdoutNotifier(),
)


class Receiver(Settings, frozen=True, kw_only=True):
    """A name, and for each notifier the list `<name>_configs`."""

    NOTIFIERS: ClassVar[Sequence[Notifier]] = ()
    name: str

    def configs(self) -> Iterator[tuple[str, Notifier, NotifierConfig]]:
        """Each block of this receiver: the name of its queue, its notifier, and the block."""
        for notifier in self.NOTIFIERS:
            for i, config in enumerate(getattr(self, key_of(notifier))):
                yield f"route/{self.name}/{notifier.name}-{i}", notifier, config


def key_of(notifier: Notifier) -> str:
    return f"{notifier.name}_configs"


def receiver_type(notifiers: Sequence[Notifier]) -> type[Receiver]:
    """The block of a receiver that may have these notifiers."""
    made = msgspec.defstruct(
        "ReceiverConfig",
        [
            (key_of(n), list[n.settings], msgspec.field(default_factory=list))  # type: ignore[name-defined]
            for n in notifiers
        ],
        bases=(Receiver,),
        module=__name__,
        namespace={"NOTIFIERS": tuple(notifiers)},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return cast("type[Receiver]", made)


if TYPE_CHECKING:
    ReceiverConfig = Receiver
else:
    ReceiverConfig = receiver_type(BUILT_IN)
