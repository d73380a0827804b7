"""Routes: which receivers an alert goes to, and how it is grouped on the way.

Enters: settings, labels. Leaves: routes; the first that matches, unless it has `continue`, as in
Alertmanager, but of one level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from otel_ofu.notify.alert import written_label
from otel_ofu.notify.conditions import Labels, Matcher, TimeIntervalConfig, all_match, parse_matcher
from otel_ofu.notify.settings import RouteConfig, RouteSettings


@dataclass(frozen=True, slots=True)
class Timing:
    """In seconds: before a group's first notification, before news, before a repetition."""

    wait_s: float
    interval_s: float
    repeat_s: float


@dataclass(frozen=True, slots=True)
class AlertRoute:
    """One route, with what it has of the block `route`.

    `path` names it to people and in group keys, as Alertmanager does: `{}` is the block itself,
    `{}/{team="nlp"}` one of its routes. `group_by` None: by all labels.
    """

    path: str
    receiver: str
    matchers: Sequence[Matcher]
    goes_on: bool
    group_by: Sequence[str] | None
    timing: Timing
    mute: Sequence[TimeIntervalConfig] = ()
    active: Sequence[TimeIntervalConfig] = ()

    @property
    def key(self) -> str:
        return f"{self.path}|{self.receiver}"

    @property
    def summary_key(self) -> str:
        """Of the group of those alerts that have none of their own."""
        return f"{self.key}:summary"

    def group_labels(self, labels: Labels) -> dict[str, str]:
        if self.group_by is None:
            return dict(sorted(labels.items()))
        return {name: labels[name] for name in self.group_by if name in labels}

    def group_key(self, labels: Labels) -> str:
        """Of the same route and labels always the same."""
        return f"{self.key}:{label_set(self.group_labels(labels))}"

    def muted_by(self, now_s: float) -> str:
        """The name of the interval that mutes this route now; empty if none does."""
        for interval in self.mute:
            if interval.holds(now_s):
                return interval.name
        if self.active and not any(interval.holds(now_s) for interval in self.active):
            return f"outside of {', '.join(i.name for i in self.active)}"
        return ""


@dataclass(frozen=True, slots=True)
class AlertRoutes:
    """All routes in order; `default` takes what none of them takes."""

    default: AlertRoute
    routes: Sequence[AlertRoute]

    def matching(self, labels: Labels) -> Sequence[AlertRoute]:
        found: list[AlertRoute] = []
        for route in self.routes:
            if all_match(route.matchers, labels):
                found.append(route)
                if not route.goes_on:
                    break
        return found or [self.default]


def build_routes(settings: RouteSettings) -> AlertRoutes:
    """ValueError for a bad matcher or name; `mistakes` has all of them."""
    intervals = {interval.name: interval for interval in settings.time_intervals}
    default = AlertRoute(
        path="{}",
        receiver=settings.receiver,
        matchers=(),
        goes_on=False,
        group_by=group_names(settings.group_by),
        timing=Timing(settings.group_wait, settings.group_interval, settings.repeat_interval),
    )
    return AlertRoutes(default, [_route(default, config, intervals) for config in settings.routes])


def label_set(labels: Labels) -> str:
    """`{a="1", b="2"}`."""
    return "{" + ", ".join(str(Matcher(k, "=", v)) for k, v in labels.items()) + "}"


def group_names(names: Sequence[str]) -> Sequence[str] | None:
    """None for `...`: all labels."""
    return None if "..." in names else tuple(sorted({written_label(name) for name in names}))


def _route(
    default: AlertRoute, config: RouteConfig, intervals: Mapping[str, TimeIntervalConfig]
) -> AlertRoute:
    matchers = [parse_matcher(text) for text in config.matchers]
    group_by = default.group_by if config.group_by is None else group_names(config.group_by)
    return AlertRoute(
        f"{default.path}/{{{', '.join(str(m) for m in matchers)}}}",
        config.receiver or default.receiver,
        matchers,
        config.continue_,
        group_by,
        _timing(default.timing, config),
        _named(config.mute_time_intervals, intervals),
        _named(config.active_time_intervals, intervals),
    )


def _timing(default: Timing, config: RouteConfig) -> Timing:
    return Timing(
        default.wait_s if config.group_wait is None else config.group_wait,
        default.interval_s if config.group_interval is None else config.group_interval,
        default.repeat_s if config.repeat_interval is None else config.repeat_interval,
    )


def _named(
    names: Sequence[str], intervals: Mapping[str, TimeIntervalConfig]
) -> Sequence[TimeIntervalConfig]:
    try:
        return [intervals[name] for name in names]
    except KeyError as error:
        known = ", ".join(intervals) or "none is defined"
        raise ValueError(f"unknown time interval {error.args[0]!r}; known: {known}") from None
