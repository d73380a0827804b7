"""Sources of other packages: found by their entry point, loaded only when they are named.

Enters: a name and the settings of the block of that name. Leaves: a `Source`, or a ValueError that
is a mistake of the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from otel_ofu.files.plugins import load_plugin, plugin_names
from otel_ofu.model.clock import Clock
from otel_ofu.sources import BUILT_IN, GROUP, Source, SourceFactory

CHOICES = tuple(sorted(("auto", "none", *BUILT_IN)))


def source_factory(name: str) -> SourceFactory:
    """What an installed package has under this name. ValueError names all that there are."""
    found = load_plugin(GROUP, name)
    if found is None:
        installed = ", ".join(plugin_names(GROUP))
        others = f"; installed plugins: {installed}" if installed else ""
        raise ValueError(f"unknown value {name!r}; one of: {', '.join(CHOICES)}{others}")
    if not callable(found):
        raise ValueError(f"the plugin {name!r} is not a function that builds a source")  # noqa: TRY004 - a mistake of the configuration
    return cast(SourceFactory, found)


def plugin_source(
    name: str, settings: Mapping[str, object], interval_s: float, clock: Clock
) -> Source:
    """ValueError when the settings are wrong, in the plugin's own text."""
    try:
        return source_factory(name)(settings, interval_s=interval_s, clock=clock)
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"the plugin {name!r} failed: {type(error).__name__}: {error}") from error
