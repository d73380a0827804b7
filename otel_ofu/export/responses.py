"""The answers of an OTLP server, taken apart. Whatever cannot be read is passed over."""

from __future__ import annotations

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)


def partial_success(answer: bytes, signal: str) -> tuple[int, str]:
    """How many points or records were rejected, and why; (0, "") if all were taken."""
    try:
        if signal == "metrics":
            metrics = ExportMetricsServiceResponse.FromString(answer).partial_success
            return max(0, metrics.rejected_data_points), metrics.error_message
        logs = ExportLogsServiceResponse.FromString(answer).partial_success
        return max(0, logs.rejected_log_records), logs.error_message
    except DecodeError:
        return 0, ""


def status_message(answer: bytes) -> str:
    """The message of a serialised google.rpc.Status."""
    try:
        return str(Status.FromString(answer).message)
    except DecodeError:
        return ""


def retry_delay_s(status: bytes | None, retry_info: bytes | None) -> float | None:
    """The delay of a RetryInfo: within a google.rpc.Status, or by itself; None without one."""
    try:
        if status is not None:
            for detail in Status.FromString(status).details:
                info = RetryInfo()
                if detail.Unpack(info):
                    return _delay_s(info)
        return None if retry_info is None else _delay_s(RetryInfo.FromString(retry_info))
    except DecodeError:
        return None


def _delay_s(info: RetryInfo) -> float:
    return max(0.0, float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9))
