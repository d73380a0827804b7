"""Which routes an alert with some labels takes, for people who write routes.

Enters: settings, labels, an instant. Leaves: lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from otel_ofu.net.secrets import shown_url
from otel_ofu.notify import format as text
from otel_ofu.notify.alert import written_label
from otel_ofu.notify.integrations import queue_limits
from otel_ofu.notify.routes import AlertRoute, build_routes, label_set
from otel_ofu.notify.settings import RouteSettings


def explain(settings: RouteSettings, labels: Mapping[str, str], now_s: float) -> Iterator[str]:
    """ValueError for settings with a mistake."""
    own = {written_label(name): value for name, value in labels.items() if value}
    yield f"labels     {label_set(own)}"
    for server in settings.alertmanager.servers:
        yield f"always     Alertmanager {shown_url(server)}, which has routes of its own"
    routes = [route for route in build_routes(settings).matching(own) if route.receiver]
    for route in routes:
        yield from _route(settings, route, own, now_s)
    if not routes and not settings.alertmanager.servers:
        yield "nowhere    no receiver takes it"


def parse_labels(written: str) -> dict[str, str]:
    """`severity=critical,ofu.job.id=42`. ValueError for a part that is not a label."""
    found: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in written.strip().strip("{}").split(","))):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{part!r} is not a label; allowed: name=value,name=value")
        found[written_label(name.strip())] = value.strip().strip('"')
    return found


def _route(
    settings: RouteSettings, route: AlertRoute, labels: Mapping[str, str], now_s: float
) -> Iterator[str]:
    queues = [q for q in queue_limits(settings) if q.startswith(f"route/{route.receiver}/")]
    kinds = ", ".join(q.rpartition("/")[2] for q in queues) or "none: nobody is notified"
    timing = route.timing
    yield f"route      {route.path}"
    yield f"  receiver {route.receiver} ({kinds})"
    yield f"  group    {label_set(route.group_labels(labels))}"
    yield (
        f"  notified after {text.duration(timing.wait_s)}, news every"
        f" {text.duration(timing.interval_s)}, again every {text.duration(timing.repeat_s)}"
    )
    if muted := route.muted_by(now_s):
        yield f"  muted    now, by {muted}"
