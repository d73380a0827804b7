"""Who is told: diagnoses to Alertmanager, webhooks, PagerDuty, chat and mail, scripts."""

from otel_ofu.route.checking import check
from otel_ofu.route.delivery import Delivery
from otel_ofu.route.explain import explain, parse_labels
from otel_ofu.route.mistakes import Surroundings
from otel_ofu.route.router import Router, RouterStats
from otel_ofu.route.sample import Sampled, sample
from otel_ofu.route.settings import RouteSettings, hook
from otel_ofu.route.targets import queue_limits

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
