"""Recordings: readings in a file, written, read back, and replayed as a source.

docs/recording-format.md describes the format, and the column map for CSV files of others.
"""

from otel_ofu.sources.recording.columns import ColumnMap, read_column_map
from otel_ofu.sources.recording.format import Header
from otel_ofu.sources.recording.reader import RecordingReader, read_recording
from otel_ofu.sources.recording.source import Recording, RecordingSource, open_recording
from otel_ofu.sources.recording.table import TableReader
from otel_ofu.sources.recording.writer import RecordingError, RecordingWriter

__all__ = [
    "ColumnMap",
    "Header",
    "Recording",
    "RecordingError",
    "RecordingReader",
    "RecordingSource",
    "RecordingWriter",
    "TableReader",
    "open_recording",
    "read_column_map",
    "read_recording",
]
