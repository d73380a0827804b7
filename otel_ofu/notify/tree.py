"""The routing tree: which receivers an alert goes to, and how it is grouped on the way.

Enters: settings, labels. Leaves: routes, first match unless one says `continue`, as Alertmanager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from otel_ofu.notify.alert import label_name
from otel_ofu.notify.matchers import Labels, Matcher, all_match, parse_matcher
from otel_ofu.notify.muting import TimeInterval, parse_interval
from otel_ofu.notify.settings import RouteConfig, RouteSettings


@dataclass(frozen=True, slots=True)
class Timing:
    """In seconds: until a new group is told, between its tellings, until it is told again."""

    wait_s: float
    interval_s: float
    repeat_s: float


@dataclass(frozen=True, slots=True)
class Route:
    """A node with everything that it has of its parents.

    `path` names it to people and in group keys: the matchers from the root. `group_by` None: by all
    labels.
    """

    path: str
    receiver: str
    matchers: Sequence[Matcher]
    goes_on: bool
    group_by: Sequence[str] | None
    timing: Timing
    mute: Sequence[TimeInterval]
    active: Sequence[TimeInterval]
    routes: Sequence[Route] = ()

    def matching(self, labels: Labels) -> Sequence[Route]:
        """The deepest routes that take these labels; empty if this one does not."""
        if not all_match(self.matchers, labels):
            return ()
        found: list[Route] = []
        for child in self.routes:
            taken = child.matching(labels)
            found += taken
            if taken and not child.goes_on:
                break
        return found or (self,)

    def group_labels(self, labels: Labels) -> dict[str, str]:
        if self.group_by is None:
            return dict(sorted(labels.items()))
        return {name: labels[name] for name in self.group_by if name in labels}

    def group_key(self, labels: Labels) -> str:
        """Of the same route and labels always the same."""
        return f"{self.path}|{self.receiver}:{shown(self.group_labels(labels))}"

    def muted_by(self, now_s: float) -> str:
        """The name of the interval that keeps this route quiet now; empty if none does."""
        for interval in self.mute:
            if interval.holds(now_s):
                return interval.name
        if self.active and not any(interval.holds(now_s) for interval in self.active):
            return f"outside of {', '.join(i.name for i in self.active)}"
        return ""

    def walk(self) -> Iterator[Route]:
        yield self
        for child in self.routes:
            yield from child.walk()


def build_tree(settings: RouteSettings) -> Route:
    """ValueError for a matcher, an interval or a name that is none; `check` tells all of them."""
    intervals = {i.name: parse_interval(i) for i in settings.time_intervals}
    timing = Timing(settings.group_wait, settings.group_interval, settings.repeat_interval)
    group_by = group_names(settings.group_by)
    root = Route(
        path="{}",
        receiver=settings.receiver,
        matchers=(),
        goes_on=False,
        group_by=group_by,
        timing=timing,
        mute=(),
        active=(),
    )
    return _with_children(root, settings.routes, intervals)


def shown(labels: Labels) -> str:
    """`{a="1", b="2"}`."""
    return "{" + ", ".join(str(Matcher(k, "=", v)) for k, v in labels.items()) + "}"


def group_names(names: Sequence[str]) -> Sequence[str] | None:
    """None for `...`: all labels."""
    return None if "..." in names else tuple(sorted({label_name(name) for name in names}))


def _with_children(
    parent: Route, configs: Sequence[RouteConfig], intervals: Mapping[str, TimeInterval]
) -> Route:
    children = [
        _with_children(_child(parent, config, intervals), config.routes, intervals)
        for config in configs
    ]
    return replace(parent, routes=children)


def _child(parent: Route, config: RouteConfig, intervals: Mapping[str, TimeInterval]) -> Route:
    matchers = [parse_matcher(text) for text in config.matchers]
    group_by = parent.group_by if config.group_by is None else group_names(config.group_by)
    return Route(
        f"{parent.path}/{{{', '.join(str(m) for m in matchers)}}}",
        config.receiver or parent.receiver,
        matchers,
        config.continue_,
        group_by,
        _timing(parent.timing, config),
        _named(config.mute_time_intervals, intervals),
        _named(config.active_time_intervals, intervals),
    )


def _timing(parent: Timing, config: RouteConfig) -> Timing:
    return Timing(
        parent.wait_s if config.group_wait is None else config.group_wait,
        parent.interval_s if config.group_interval is None else config.group_interval,
        parent.repeat_s if config.repeat_interval is None else config.repeat_interval,
    )


def _named(names: Sequence[str], intervals: Mapping[str, TimeInterval]) -> Sequence[TimeInterval]:
    try:
        return [intervals[name] for name in names]
    except KeyError as error:
        known = ", ".join(intervals) or "none is defined"
        raise ValueError(f"time interval {error.args[0]!r} is unknown; known: {known}") from None
