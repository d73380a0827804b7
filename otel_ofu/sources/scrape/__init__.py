"""Reads GPUs from the Prometheus pages of exporters: dcgm-exporter, AMD, TPU, Ascend and others.

The exporters and their spellings are in catalog/vendors.yaml.
"""

from otel_ofu.sources.scrape.settings import PageEndpoint, endpoint_at, endpoints_of
from otel_ofu.sources.scrape.source import DeviceReport, EndpointReport, ScrapeSource

__all__ = [
    "DeviceReport",
    "EndpointReport",
    "PageEndpoint",
    "ScrapeSource",
    "endpoint_at",
    "endpoints_of",
]
