"""OTLP in: metrics of other agents and of training jobs, over HTTP and gRPC, into the store."""

from otel_ofu.receiver.intake import Bounds
from otel_ofu.receiver.keys import JobNames
from otel_ofu.receiver.receiver import Counts, Receiver
from otel_ofu.receiver.settings import Address, Limits, ReceiverSettings, Tls, parse_address

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
