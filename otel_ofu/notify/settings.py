"""What a user may write about notifications: the block `route:`, in Alertmanager's words.

Enters: plain YAML data. Leaves: `RouteSettings`, and what is wrong with it. The block is
Alertmanager's root route, with the receivers and time intervals beside it. Secrets come from files
or environment variables alone; there is no key to write one down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, ClassVar, cast

import msgspec

from otel_ofu.files.settings import (
    YEAR,
    CheckContext,
    Duration,
    Mistake,
    ParsedText,
    QuantityRange,
    Settings,
    tried,
)
from otel_ofu.files.yaml import Steps
from otel_ofu.net.settings import parse_url
from otel_ofu.notify.alertmanager import AlertmanagerConfig
from otel_ofu.notify.conditions import TimeIntervalConfig, parse_matcher, parse_zone
from otel_ofu.notify.http import Interval
from otel_ofu.notify.message import MessageOptions, parse_message_template
from otel_ofu.notify.notifier import Notifier
from otel_ofu.notify.notifiers import (
    BUILT_IN,
    CONFIGS,
    NotificationReceiver,
    ReceiverConfig,
    list_of,
    load_notifier,
    receiver_type,
)
from otel_ofu.notify.template import Part

MOST = 1_000_000
"""Starting value: more than a message or an outbox can hold."""
Wait = Annotated[Duration, QuantityRange(Duration(0), YEAR)]


def read_template(path: str) -> Sequence[Part]:
    """The parts of a template of messages. ValueError names the file."""
    try:
        return parse_message_template(Path(path).read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        why = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ValueError(f"{path}: {why}") from error


class RouteConfig(Settings, frozen=True, kw_only=True):
    """One route; what is None or empty is that of the block `route`."""

    REMOVED: ClassVar[Mapping[str, str]] = {
        "routes": "routes have one level: write each of them under route.routes with all of its"
        " matchers, the narrower ones first, and continue: true where several apply"
    }
    receiver: str = ""
    matchers: list[Annotated[str, ParsedText(parse_matcher, required=True)]] = msgspec.field(
        default_factory=list
    )
    continue_: bool = msgspec.field(name="continue", default=False)
    group_by: list[str] | None = None
    group_wait: Wait | None = None
    group_interval: Interval | None = None
    repeat_interval: Interval | None = None
    mute_time_intervals: list[str] = msgspec.field(default_factory=list)
    active_time_intervals: list[str] = msgspec.field(default_factory=list)


class RouteSettings(Settings, frozen=True, kw_only=True):
    """Everything at its default: nobody is notified.

    `max_groups`: beyond so many groups of one route at a time, further alerts come as one summary.
    `max_alerts`: so many are written out in one message, the worst first. `max_age`: a notification
    that nobody took is given up then. `time_zone`: of the times in messages.
    """

    REMOVED: ClassVar[Mapping[str, str]] = {
        "inhibit_rules": "a node notifies for its GPUs and jobs and a job for its GPUs, without"
        " rules; remove the block, or move rules of your own to an Alertmanager"
    }

    alertmanager: AlertmanagerConfig = AlertmanagerConfig()
    receivers: list[ReceiverConfig] = msgspec.field(default_factory=list)
    receiver: str = ""
    group_by: list[str] = msgspec.field(default_factory=lambda: ["ofu_job_id"])
    # Source of these three: Alertmanager, <route>.
    group_wait: Wait = Duration(30)
    group_interval: Interval = Duration(300)
    repeat_interval: Interval = Duration(14400)
    routes: list[RouteConfig] = msgspec.field(default_factory=list)
    time_intervals: list[TimeIntervalConfig] = msgspec.field(default_factory=list)
    # Starting values from here to max_age.
    max_groups: Annotated[int, QuantityRange(1, MOST)] = 50
    max_alerts: Annotated[int, QuantityRange(1, MOST)] = 20
    max_age: Interval = Duration(21600)
    time_zone: Annotated[str, ParsedText(parse_zone, required=True)] = "UTC"
    template_file: Annotated[str, ParsedText(read_template)] = ""
    external_url: Annotated[str, ParsedText(parse_url)] = ""

    def mistakes(self, around: CheckContext) -> Iterator[Mistake]:  # noqa: ARG002 - own keys alone
        yield from _unique("receivers", [receiver.name for receiver in self.receivers])
        yield from _unique("time_intervals", [interval.name for interval in self.time_intervals])
        yield from self._names()

    def message_options(self) -> MessageOptions:
        """ValueError for an unknown time zone or a bad template."""
        zone = parse_zone(self.time_zone)
        if not self.template_file:
            return MessageOptions(zone, self.max_alerts, external_url=self.external_url)
        parts = read_template(self.template_file)
        return MessageOptions(zone, self.max_alerts, parts, self.external_url)

    def _names(self) -> Iterator[Mistake]:
        """Receivers and time intervals that are named and not defined."""
        receivers = _Known("receiver", "receivers", [r.name for r in self.receivers])
        intervals = _Known("time interval", "time_intervals", [t.name for t in self.time_intervals])
        if self.receivers and not self.receiver:
            yield ("receiver",), f"a receiver for what no route takes is needed; {receivers}"
        yield from receivers.mistakes(self.receiver, ("receiver",))
        for i, route in enumerate(self.routes):
            yield from receivers.mistakes(route.receiver, ("routes", i, "receiver"))
            for key in ("mute_time_intervals", "active_time_intervals"):
                for j, name in enumerate(getattr(route, key)):
                    yield from intervals.mistakes(name, ("routes", i, key, j))


def settings_type(block: object) -> tuple[type[RouteSettings], list[Mistake]]:
    """The type that reads this block, plain YAML data, and what is wrong with its notifiers.

    It is `RouteSettings`, or where a receiver names notifiers of other packages one that has them.
    """
    plugins: dict[str, Notifier | None] = {}
    mistakes: list[Mistake] = []
    for steps, name in _foreign_notifiers(block):
        if name not in plugins:
            plugins[name] = None
            mistakes += tried(partial(_load, name, plugins), steps)
    if not plugins:
        return RouteSettings, []
    notifiers = [*BUILT_IN, *(notifier for notifier in plugins.values() if notifier)]
    unknown = [f"{name}{CONFIGS}" for name, notifier in plugins.items() if notifier is None]
    return _with_receivers(receiver_type(notifiers, unknown)), mistakes


def _load(name: str, plugins: dict[str, Notifier | None]) -> None:
    plugins[name] = load_notifier(name)


def _foreign_notifiers(block: object) -> Iterator[tuple[Steps, str]]:
    """Each `<name>_configs` of a receiver that is not built in: its key and its name."""
    receivers = block.get("receivers") if isinstance(block, dict) else None
    known = [notifier.name for notifier in BUILT_IN]
    for i, receiver in enumerate(receivers if isinstance(receivers, list) else ()):
        for key in receiver if isinstance(receiver, dict) else ():
            name = str(key).removesuffix(CONFIGS)
            if str(key).endswith(CONFIGS) and name not in known:
                yield ("receivers", i, str(key)), name


def _with_receivers(receiver: type[NotificationReceiver]) -> type[RouteSettings]:
    made = msgspec.defstruct(
        "RouteSettings",
        [("receivers", list_of(receiver), msgspec.field(default_factory=list))],
        bases=(RouteSettings,),
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    return cast("type[RouteSettings]", made)


@dataclass(frozen=True, slots=True)
class _Known:
    """The names of `what` that are defined under `key`."""

    what: str
    key: str
    names: Sequence[str]

    def mistakes(self, name: str, steps: Steps) -> Iterator[Mistake]:
        if name and name not in self.names:
            yield steps, f"unknown {self.what} {name!r}; {self}"

    def __str__(self) -> str:
        names = ", ".join(dict.fromkeys(self.names))
        return f"known: {names}" if names else f"none is defined under {self.key}"


def _unique(key: str, names: Sequence[str]) -> Iterator[Mistake]:
    for i, name in enumerate(names):
        if not name:
            yield (key, i, "name"), "a name is needed"
        elif name in names[:i]:
            yield (key, i, "name"), f"the name {name!r} is used twice"
