"""Who is told: diagnoses to Alertmanager, webhooks, PagerDuty, chat and mail, scripts."""

from otel_ofu.notify.checking import check
from otel_ofu.notify.delivery import Delivery
from otel_ofu.notify.explain import explain, parse_labels
from otel_ofu.notify.mistakes import Surroundings
from otel_ofu.notify.router import Router, RouterStats
from otel_ofu.notify.sample import Sampled, sample
from otel_ofu.notify.settings import RouteSettings, hook
from otel_ofu.notify.targets import queue_limits

__all__ = [
    "Delivery",
    "RouteSettings",
    "Router",
    "RouterStats",
    "Sampled",
    "Surroundings",
    "check",
    "explain",
    "hook",
    "parse_labels",
    "queue_limits",
    "sample",
]
