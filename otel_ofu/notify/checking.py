"""All that is wrong with a route block, before anybody relies on it.

Enters: settings. Leaves: mistakes with the steps to their place, relative to the block `route:`.
Nothing is sent, no server is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from otel_ofu.notify.matchers import parse_matcher
from otel_ofu.notify.mistakes import Mistake, Steps, Surroundings, tried, url_mistakes
from otel_ofu.notify.muting import parse_interval
from otel_ofu.notify.places import alertmanager_mistakes, receiver_mistakes
from otel_ofu.notify.settings import RouteConfig, RouteSettings
from otel_ofu.notify.targets import message_options


def check(settings: RouteSettings, around: Surroundings) -> list[Mistake]:
    """Every mistake; empty if all is well. No message holds a secret."""
    found = [
        *_names(settings),
        *_routes(settings),
        *_rest(settings),
    ]
    found += [
        (("alertmanager", *steps), why)
        for steps, why in alertmanager_mistakes(settings.alertmanager, around)
    ]
    for i, receiver in enumerate(settings.receivers):
        mistakes = receiver_mistakes(receiver, around)
        found += [(("receivers", i, *steps), why) for steps, why in mistakes]
    return found


def _names(settings: RouteSettings) -> Iterator[Mistake]:
    for key, names in (
        ("receivers", [r.name for r in settings.receivers]),
        ("time_intervals", [t.name for t in settings.time_intervals]),
    ):
        for i, name in enumerate(names):
            if not name:
                yield (key, i, "name"), "a name is needed"
            elif name in names[:i]:
                yield (key, i, "name"), f"the name {name!r} is there twice"


def _routes(settings: RouteSettings) -> Iterator[Mistake]:
    if settings.receivers and not settings.receiver:
        yield ("receiver",), f"the receiver of what no route takes is needed; {_known(settings)}"
    if settings.receiver:
        yield from _receiver_name(settings, settings.receiver, ("receiver",))
    yield from _times(settings, ())
    for i, route in enumerate(settings.routes):
        here = ("routes", i)
        for j, text in enumerate(route.matchers):
            yield from tried(partial(parse_matcher, text), (*here, "matchers", j))
        if route.receiver:
            yield from _receiver_name(settings, route.receiver, (*here, "receiver"))
        yield from _interval_names(settings, route, here)
        yield from _times(route, here)


def _receiver_name(settings: RouteSettings, name: str, steps: Steps) -> Iterator[Mistake]:
    if name not in [r.name for r in settings.receivers]:
        yield steps, f"unknown receiver {name!r}; {_known(settings)}"


def _known(settings: RouteSettings) -> str:
    names = ", ".join(r.name for r in settings.receivers)
    return f"known: {names}" if names else "none is defined under receivers"


def _interval_names(settings: RouteSettings, route: RouteConfig, steps: Steps) -> Iterator[Mistake]:
    known = [t.name for t in settings.time_intervals]
    for key in ("mute_time_intervals", "active_time_intervals"):
        for i, name in enumerate(getattr(route, key)):
            if name not in known:
                allowed = ", ".join(known) or "none is defined under time_intervals"
                yield (*steps, key, i), f"unknown time interval {name!r}; known: {allowed}"


def _times(route: RouteSettings | RouteConfig, steps: Steps) -> Iterator[Mistake]:
    for key in ("group_interval", "repeat_interval"):
        if getattr(route, key) is not None and getattr(route, key) <= 0:
            yield (*steps, key), "has to be longer than 0s"


def _rest(settings: RouteSettings) -> Iterator[Mistake]:
    for i, interval in enumerate(settings.time_intervals):
        yield from tried(partial(parse_interval, interval), ("time_intervals", i))
    key = "template_file" if settings.template_file else "time_zone"
    yield from tried(partial(message_options, settings), (key,))
    for key in ("max_groups", "max_alerts", "max_age"):
        if getattr(settings, key) <= 0:
            yield (key,), "has to be more than 0"
    if settings.external_url:
        yield from url_mistakes(settings.external_url, ("external_url",))
