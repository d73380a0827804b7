"""Tests of rules on virtual time: inside rule files, and in promtool's format."""

from otel_ofu.rules.tests.promtool import is_promtool_file, run_promtool_file
from otel_ofu.rules.tests.run import TestResult, run_case, run_tests

__all__ = ["TestResult", "is_promtool_file", "run_case", "run_promtool_file", "run_tests"]
