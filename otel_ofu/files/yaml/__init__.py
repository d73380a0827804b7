"""YAML -> types, every mistake as file:line:column."""

from otel_ofu.files.yaml.convert import (
    ConversionResult,
    convert,
    convert_good,
    convert_usable,
)
from otel_ofu.files.yaml.parse import KEY, Step, Steps, YamlFile, parse_yaml, problem_at, read_yaml
from otel_ofu.files.yaml.shown import ADDRESS, PATH, PLAIN, keys_only

__all__ = [
    "ADDRESS",
    "KEY",
    "PATH",
    "PLAIN",
    "ConversionResult",
    "Step",
    "Steps",
    "YamlFile",
    "convert",
    "convert_good",
    "convert_usable",
    "keys_only",
    "parse_yaml",
    "problem_at",
    "read_yaml",
]
