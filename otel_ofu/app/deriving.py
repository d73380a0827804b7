"""The config put into what `derive` needs.

Enters: the config. Leaves: a `Deriver`, or a ConfigError with the positions of the mistakes.
"""

from __future__ import annotations

from otel_ofu.catalog.skus import InvalidSkus, Skus, load_skus
from otel_ofu.config import Gpu
from otel_ofu.derive import Deriver, DeriverSettings
from otel_ofu.derive.settings import parse_reference_clock
from otel_ofu.files.yaml import read_yaml
from otel_ofu.model.errors import ConfigError


def deriver(gpu: Gpu, host: str, *, known: Skus | None = None, node_name: str = "") -> Deriver:
    """Ready for the sampler. `node_name`: what a user says, else `host` where a GPU has none.

    Raises ConfigError for a bad SKU file, unless its models are `known`.
    """
    return Deriver(
        DeriverSettings(
            skus=skus(gpu.skus_file) if known is None else known,
            node_name=node_name,
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
