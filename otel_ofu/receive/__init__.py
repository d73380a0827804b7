"""OTLP in: metrics of other agents and of training jobs, over HTTP and gRPC, into the store."""

from otel_ofu.receive.intake import Bounds
from otel_ofu.receive.keys import JobNames
from otel_ofu.receive.receiver import Counts, Receiver
from otel_ofu.receive.settings import Address, Limits, ReceiverSettings, Tls, parse_address

__all__ = [
    "Address",
    "Bounds",
    "Counts",
    "JobNames",
    "Limits",
    "Receiver",
    "ReceiverSettings",
    "Tls",
    "parse_address",
]
