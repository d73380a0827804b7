"""What is installed: the data folders `rules/` and `config/`, and the parts of other packages.

The folders are in the wheel, or beside the package. Parts are found by their entry point and loaded
only when they are named. Enters: the name of a folder, or the group and the name of an entry point.
Leaves: a path, or the object that it points to.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped(name: str) -> Path:
    """The folder `name` ("rules" or "config") of this installation."""
    inside = _PACKAGE / "shipped" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


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
