"""The terminal: a live table, or one line per round where the output is no terminal."""

from otel_ofu.export.console.lines import Lines
from otel_ofu.export.console.rows import GpuRow, rows
from otel_ofu.export.console.table import GpuTable

__all__ = ["GpuRow", "GpuTable", "Lines", "rows"]
