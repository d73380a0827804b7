"""The config put into what `derive` needs.

Enters: the config. Leaves: a `Deriver`, or a ConfigError with the places of the mistakes.
"""

from __future__ import annotations

from otel_ofu.catalog.skus import InvalidSkus, Skus, load_skus
from otel_ofu.config import Gpu
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.derive.settings import parse_reference_clock
from otel_ofu.files.yaml import read_yaml
from otel_ofu.model.errors import ConfigError


def deriver(gpu: Gpu, host: str) -> Deriver:
    """Ready for the sampler. Raises ConfigError for a bad SKU file."""
    return Deriver(
        DeriverSettings(
            skus=skus(gpu.skus_file),
            reference_clock=parse_reference_clock(gpu.reference_clock),
            precision=gpu.precision,
            host_name=host,
            serial_numbers=gpu.serial_numbers,
        )
    )


def skus(path: str) -> Skus:
    """The built-in models, and those of the user's file."""
    if not path:
        return load_skus()
    file = read_yaml(path)
    try:
        return load_skus().extended(file.tree)
    except InvalidSkus as error:
        problems = [
            file.key_problem(steps, message)
            if message.startswith("unknown key")
            else file.problem(steps, message)
            for steps, message in error.faults
        ]
        raise ConfigError(problems) from error
