"""YAML -> types, every mistake as file:line:column."""

from otel_ofu.files.yaml.convert import convert, split_error
from otel_ofu.files.yaml.parse import KEY, Steps, YamlFile, parse_yaml, problem_at, read_yaml
from otel_ofu.files.yaml.shown import keys_only

__all__ = [
    "KEY",
    "Steps",
    "YamlFile",
    "convert",
    "keys_only",
    "parse_yaml",
    "problem_at",
    "read_yaml",
    "split_error",
]
