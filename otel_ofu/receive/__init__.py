"""OTLP in: metrics of other agents and of training jobs, over HTTP and gRPC, into the store."""

from otel_ofu.receive.keys import JobNames
from otel_ofu.receive.receiver import Counts, Receiver
from otel_ofu.receive.settings import Listener, OtlpReceiverSettings

__all__ = ["Counts", "JobNames", "Listener", "OtlpReceiverSettings", "Receiver"]
