"""Environment variables, command lines, profilers and debuggers that slow a job down.

Enters: rules/flags.yaml and the processes on the GPUs. Leaves: `FlagScan`s. Only what the file
lists is read out of an environment, and only what it lists is told.
"""

from otel_ofu.evidence.flags.book import FlagBook
from otel_ofu.evidence.flags.load import load_flags
from otel_ofu.evidence.flags.report import FlagReport
from otel_ofu.evidence.flags.scanner import FlagScanner
from otel_ofu.evidence.flags.settings import FlagSettings
from otel_ofu.evidence.flags.state import FlagScan, FlagState

__all__ = [
    "FlagBook",
    "FlagReport",
    "FlagScan",
    "FlagScanner",
    "FlagSettings",
    "FlagState",
    "load_flags",
]
