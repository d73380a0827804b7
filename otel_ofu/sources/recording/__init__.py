"""Recordings: readings in a file, written, read back, and replayed as a source.

docs/recording-format.md describes the format, and the column map for CSV files of others.
"""

from otel_ofu.sources.recording.format import RecordingError, RecordingHeader, RecordingWriter
from otel_ofu.sources.recording.read import RecordingReader, read_recording
from otel_ofu.sources.recording.source import RecordingFile, RecordingSource, open_recording
from otel_ofu.sources.recording.table import ColumnMap, TableReader, read_column_map

__all__ = [
    "ColumnMap",
    "RecordingError",
    "RecordingFile",
    "RecordingHeader",
    "RecordingReader",
    "RecordingSource",
    "RecordingWriter",
    "TableReader",
    "open_recording",
    "read_column_map",
    "read_recording",
]
