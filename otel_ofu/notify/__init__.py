"""Notifications: findings to Alertmanager, webhooks, PagerDuty, chat and mail, scripts."""

from otel_ofu.notify.integrations import Delivery, queue_limits
from otel_ofu.notify.router import Router, RouterStats
from otel_ofu.notify.settings import RouteSettings, settings_type
from otel_ofu.notify.testing import SendResult, explain, parse_labels, send_test

__all__ = [
    "Delivery",
    "RouteSettings",
    "Router",
    "RouterStats",
    "SendResult",
    "explain",
    "parse_labels",
    "queue_limits",
    "send_test",
    "settings_type",
]
