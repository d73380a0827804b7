"""Parts that other packages bring: found by their entry point, loaded only when they are named.

Enters: the group and the name of an entry point. Leaves: the object that it points to.
"""

from __future__ import annotations


class PluginError(ValueError):
    """An entry point that cannot be used; the message names its package."""


def load_plugin(group: str, name: str) -> object | None:
    """None if no installed package has it. Raises PluginError."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - 70 ms that most starts do without

    found = tuple(entry_points(group=group, name=name))
    if not found:
        return None
    packages = [point.dist.name if point.dist else point.value for point in found]
    if len(found) > 1:
        raise PluginError(f"several packages have {name!r} ({', '.join(packages)}); keep one")
    try:
        plugin: object = found[0].load()
    except Exception as error:  # the code of others, whatever it does when it is imported
        why = f"{type(error).__name__}: {error}"
        raise PluginError(
            f"{name!r} of the package {packages[0]} cannot be loaded: {why}"
        ) from error
    return plugin


def plugin_names(group: str) -> list[str]:
    """Of all installed packages; nothing is loaded."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - as above

    return sorted({point.name for point in entry_points(group=group)})
