"""Where telemetry goes: config first, then the environment."""

from __future__ import annotations

import pytest

from otel_ofu.config import config_from_text
from otel_ofu.export.settings import ExporterSettings
from otel_ofu.export.targets import otlp_targets
from otel_ofu.model.errors import ConfigError

HTTP = "exporters: {otlp_http: {endpoint: http://127.0.0.1:4318}}"


def test_without_config_and_environment_nothing_is_sent() -> None:
    assert otlp_targets(ExporterSettings(), {}) == []


def test_the_environment_alone_is_enough() -> None:
    (target,) = otlp_targets(ExporterSettings(), {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"})
    assert target.signals["metrics"].endpoint == "http://c:4318/v1/metrics"
    assert target.signals["logs"].endpoint == "http://c:4318/v1/logs"


def test_an_endpoint_for_metrics_alone_sends_metrics_alone() -> None:
    environ = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/custom"}
    (target,) = otlp_targets(ExporterSettings(), environ)
    assert {s: t.endpoint for s, t in target.signals.items()} == {"metrics": "http://c:4318/custom"}


def test_the_config_outranks_the_environment_and_the_environment_fills_what_is_left() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://elsewhere:4318",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "2500",
        "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=a",
    }
    (target,) = otlp_targets(config_from_text(HTTP).exporters, environ)
    settings = target.signals["metrics"]
    assert settings.endpoint == "http://127.0.0.1:4318/v1/metrics"
    assert settings.timeout_s == 2.5
    assert settings.headers == {"x-tenant": "a"}


def test_both_protocols_can_be_used_at_once() -> None:
    text = (
        "exporters:\n"
        "  otlp_http: {endpoint: http://a:4318}\n"
        "  otlp_grpc: {endpoint: http://b:4317, timeout: 3s, compression: none}\n"
    )
    targets = otlp_targets(config_from_text(text).exporters, {})
    assert [(t.name, t.endpoint) for t in targets] == [
        ("otlp_http", "http://a:4318/v1/metrics"),
        ("otlp_grpc", "b:4317"),
    ]
    assert targets[1].signals["metrics"].timeout_s == 3


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4318"}, "environment: "),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318",
                "OTEL_EXPORTER_OTLP_TIMEOUT": "ten",
            },
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        ),
    ],
)
def test_a_bad_variable_is_named(environ: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        otlp_targets(ExporterSettings(), environ)
