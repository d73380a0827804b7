"""What a user may write in otel-ofu.yaml; config/otel-ofu.yaml lists every key.

Enters: a file, or nothing (then the defaults hold). Leaves: `Config`, or a ConfigError that names
every mistake with file, line and column. Only `app` and `cli` see this package.
"""

from otel_ofu.config.load import (
    ReadConfig,
    config_from_text,
    config_read_from_text,
    load_config,
    read_config,
)
from otel_ofu.config.receivers import Gpu, Receivers
from otel_ofu.config.types import AgentSettings, Config, Jobs

__all__ = [
    "AgentSettings",
    "Config",
    "Gpu",
    "Jobs",
    "ReadConfig",
    "Receivers",
    "config_from_text",
    "config_read_from_text",
    "load_config",
    "read_config",
]
