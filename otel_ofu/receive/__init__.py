"""OTLP in: metrics of other agents and of training jobs, over HTTP and gRPC, into the store."""

from otel_ofu.receive.buffer import Buffer
from otel_ofu.receive.keys import JobNames
from otel_ofu.receive.receiver import OtlpReceiver, ReceiverCounts
from otel_ofu.receive.settings import ListenerSettings, OtlpReceiverSettings

__all__ = [
    "Buffer",
    "JobNames",
    "ListenerSettings",
    "OtlpReceiver",
    "OtlpReceiverSettings",
    "ReceiverCounts",
]
