"""Where readings come from. Each module builds one `Source`; none knows another.

A package of its own brings a source as an entry point of the group `otel_ofu.sources` that leads to
a `SourceFactory`; docs/plugins.md explains it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from otel_ofu.files.installed import load_plugin, plugin_names
from otel_ofu.model import Reading, Trouble
from otel_ofu.model.clock import Clock

GROUP = "otel_ofu.sources"
BUILT_IN = ("dcgm", "nvml", "scrape", "demo")


class Source(Protocol):
    """Reads every device that it owns.

    `read` may block; the sampler bounds the wait. It raises `SourceError` when nothing at all
    could be read; what is missing of one device or counter is a gap in its reading, never an
    exception. `now_s` is the scheduled instant (Unix seconds) and is used for windows only.
    `close` releases handles, may be called twice, and is called from the reading thread.

    `events() -> Sequence[Reading]` is optional: what happened since its last call (XIDs as their
    counts so far), each with nothing else in it. It is called once a second from another thread,
    also while `read` runs, and returns at once.

    Three more methods are optional, and speak of the last `read`, also of one that raised:
    `troubles() -> Sequence[Trouble]` is what failed beside the readings,
    `targets() -> Mapping[str, bool]` whether each thing that it reads from (an endpoint, an engine)
    answered, and `costs() -> Mapping[str, float]` what it costs beside `read`, by registry key of
    the agent. `events_of`, `troubles_of`, `targets_of` and `costs_of` ask for them.
    """

    @property
    def name(self) -> str: ...

    def read(self, now_s: float) -> Sequence[Reading]: ...

    def close(self) -> None: ...


def troubles_of(source: Source) -> tuple[Trouble, ...]:
    """What failed in the last `read`; empty for a source that does not report it."""
    report = getattr(source, "troubles", None)
    return tuple(report()) if report else ()


def targets_of(source: Source) -> dict[str, bool]:
    """Target -> whether it answered the last `read`; empty for a source that does not report it."""
    report = getattr(source, "targets", None)
    return dict(report()) if report else {}


def events_of(source: Source) -> tuple[Reading, ...]:
    """What happened since the last call; empty for a source that has it in its readings alone."""
    report = getattr(source, "events", None)
    return tuple(report()) if report else ()


def costs_of(source: Source) -> dict[str, float]:
    """What a source costs beside `read`, such as a thread of its own; empty where it has none."""
    report = getattr(source, "costs", None)
    return dict(report()) if report else {}


class SourceFactory(Protocol):
    """Builds the source of another package; it opens nothing, that is for the first `read`.

    `settings` is the block `receivers.gpu.plugins.<name>`, empty without one. A ValueError is a
    mistake in it and is shown with its line.
    """

    def __call__(
        self, settings: Mapping[str, object], *, interval_s: float, clock: Clock
    ) -> Source: ...


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
