"""The type of a configuration that names parts of other packages.

Enters: a file. Leaves: the type that reads it, and what is wrong with those parts.
"""

from __future__ import annotations

from typing import cast

import msgspec

from otel_ofu import notify
from otel_ofu.config.types import Config
from otel_ofu.files.yaml import YamlFile
from otel_ofu.model.errors import Problem


def config_type(file: YamlFile) -> tuple[type[Config], list[Problem]]:
    """`Config`, or a subclass with the blocks of plugins; only what the file names is loaded."""
    block = file.tree.get("route") if isinstance(file.tree, dict) else None
    route, mistakes = notify.settings_type(block)
    if route is notify.RouteSettings:
        return Config, []
    made = msgspec.defstruct(
        "Config",
        [("route", route, msgspec.field(default_factory=route))],
        bases=(Config,),
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )
    problems = [file.key_problem(("route", *steps), message) for steps, message in mistakes]
    return cast("type[Config]", made), problems
