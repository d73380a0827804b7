"""Which way a diagnosis with some labels would take, for people who write routes.

Enters: settings, labels, an instant. Leaves: lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from otel_ofu.net.secrets import place_of_url
from otel_ofu.notify import words
from otel_ofu.notify.alert import written_label
from otel_ofu.notify.routes import Route, build_routes, label_set
from otel_ofu.notify.settings import RouteSettings
from otel_ofu.notify.targets import queue_limits


def explain(settings: RouteSettings, labels: Mapping[str, str], now_s: float) -> Iterator[str]:
    """ValueError for settings that are no use."""
    own = {written_label(name): value for name, value in labels.items() if value}
    yield f"labels     {label_set(own)}"
    for server in settings.alertmanager.servers:
        yield f"always     Alertmanager {place_of_url(server)}, which has routes of its own"
    routes = [route for route in build_routes(settings).matching(own) if route.receiver]
    for route in routes:
        yield from _route(settings, route, own, now_s)
    if not routes and not settings.alertmanager.servers:
        yield "nowhere    no receiver takes it"


def parse_labels(text: str) -> dict[str, str]:
    """`severity=critical,ofu.job.id=42`. ValueError for a part that is none."""
    found: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in text.strip().strip("{}").split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{part!r} is no label; allowed: name=value,name=value")
        found[written_label(name.strip())] = value.strip().strip('"')
    return found


def _route(
    settings: RouteSettings, route: Route, labels: Mapping[str, str], now_s: float
) -> Iterator[str]:
    places = [q for q in queue_limits(settings) if q.startswith(f"route/{route.receiver}/")]
    kinds = ", ".join(q.rpartition("/")[2] for q in places) or "nothing: it tells nobody"
    timing = route.timing
    yield f"route      {route.path}"
    yield f"  receiver {route.receiver} ({kinds})"
    yield f"  group    {label_set(route.group_labels(labels))}"
    yield (
        f"  told     after {words.lasting(timing.wait_s)}, news every"
        f" {words.lasting(timing.interval_s)}, again every {words.lasting(timing.repeat_s)}"
    )
    if muted := route.muted_by(now_s):
        yield f"  muted    now, by {muted}"
