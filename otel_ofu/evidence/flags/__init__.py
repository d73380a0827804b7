"""Environment variables, command lines, profilers and debuggers that slow a job down.

Enters: rules/flags.yaml and the processes on the GPUs. Leaves: `FlagScan`s. Only what the file
lists is read out of an environment, and only what it lists is reported.
"""

from otel_ofu.evidence.flags.catalogue import FlagCatalogue, load_flags
from otel_ofu.evidence.flags.scanner import FlagScanner
from otel_ofu.evidence.flags.state import FlagReport, FlagScan, FlagState

__all__ = [
    "FlagCatalogue",
    "FlagReport",
    "FlagScan",
    "FlagScanner",
    "FlagState",
    "load_flags",
]
