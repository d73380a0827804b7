"""All notifiers: those built in, and those of other packages that a configuration names.

Enters: the plain YAML data of the block `route`. Leaves: the types that read it, and for a receiver
the notifiers that it has. A notifier that is added is one module and one row here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec

from otel_ofu.files.installed import PluginError, load_plugin
from otel_ofu.files.settings import Settings
from otel_ofu.notify.apprise import AppriseNotifier
from otel_ofu.notify.notifier import Notifier, NotifierConfig
from otel_ofu.notify.pagerduty import PagerdutyNotifier
from otel_ofu.notify.stdout import StdoutNotifier
from otel_ofu.notify.webhook import WebhookNotifier

CONFIGS = "_configs"
BUILT_IN: Sequence[Notifier] = (
    WebhookNotifier(),
    PagerdutyNotifier(),
    AppriseNotifier(),
    StdoutNotifier(),
)


GROUP = "otel_ofu.notifiers"
"""The entry points of notifiers of other packages."""


class NotificationReceiver(Settings, frozen=True, kw_only=True):
    """A name, and for each notifier the list `<name>_configs`."""

    NOTIFIERS: ClassVar[Sequence[Notifier]] = ()
    name: str

    def configs(self) -> Iterator[tuple[str, Notifier, NotifierConfig]]:
        """Each block of this receiver: the name of its queue, its notifier, and the block."""
        for notifier in self.NOTIFIERS:
            for i, config in enumerate(getattr(self, key_of(notifier))):
                yield f"route/{self.name}/{notifier.name}-{i}", notifier, config


def key_of(notifier: Notifier) -> str:
    return f"{notifier.name}{CONFIGS}"


def receiver_type(
    notifiers: Sequence[Notifier], ignored: Collection[str] = ()
) -> type[NotificationReceiver]:
    """The block of a receiver that may have these notifiers; `ignored` keys hold anything."""
    made = msgspec.defstruct(
        "ReceiverConfig",
        [
            *(
                (key_of(n), list_of(n.settings), msgspec.field(default_factory=list))
                for n in notifiers
            ),
            *((key, Any, None) for key in ignored),
        ],
        bases=(NotificationReceiver,),
        module=__name__,
        namespace={"NOTIFIERS": tuple(notifiers)},
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return cast("type[NotificationReceiver]", made)


def list_of(block: type[Settings]) -> GenericAlias:
    """`list[block]`, for a type that is known at run time."""
    return GenericAlias(list, (block,))


def load_notifier(name: str) -> Notifier:
    """The notifier of another package. Raises PluginError."""
    plugin = load_plugin(GROUP, name)
    if plugin is None:
        known = ", ".join(notifier.name for notifier in BUILT_IN)
        raise PluginError(
            f"unknown notifier {name!r}; built in: {known}; others come with a package"
            f" that has the entry point {name!r} in the group {GROUP}"
        )
    if problem := _problem(plugin, name):
        raise PluginError(f"the entry point {name!r} in the group {GROUP} {problem}")
    return cast("Notifier", plugin)


def _problem(plugin: object, name: str) -> str:
    """Why this is not a notifier of that name; empty if it is."""
    missing = [a for a in ("name", "settings", "encode", "connect") if not hasattr(plugin, a)]
    if missing:
        return f"is not a notifier: it has no {' and no '.join(missing)}"
    notifier = cast("Notifier", plugin)
    if notifier.name != name:
        return f"is the notifier {notifier.name!r}; both names have to be the same"
    settings: object = notifier.settings
    if not (isinstance(settings, type) and issubclass(settings, NotifierConfig)):
        return "is not a notifier: its settings are not a subclass of NotifierConfig"
    return ""


if TYPE_CHECKING:
    ReceiverConfig = NotificationReceiver
else:
    ReceiverConfig = receiver_type(BUILT_IN)
