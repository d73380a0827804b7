"""Environment variables, command lines, profilers and debuggers that slow a job down.

Enters: rules/flags.yaml and the processes on the GPUs. Leaves: `FlagScan`s. Only what the file
lists is read out of an environment, and none of its values is reported.
"""

from otel_ofu.evidence.flags.catalogue import FlagCatalogue, load_flags
from otel_ofu.evidence.flags.scan import FlagReport, FlagScan
from otel_ofu.evidence.flags.scanner import FlagScanner

__all__ = ["FlagCatalogue", "FlagReport", "FlagScan", "FlagScanner", "load_flags"]
