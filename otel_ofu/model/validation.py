"""Messages of msgspec in the words of somebody who writes YAML or JSON.

Enters: an error of a conversion. Leaves: one line, such as `metrics[0].scale: expected a number,
got text`.
"""

from __future__ import annotations

import re

import msgspec

_PATH = re.compile(r" - at `(?:key` in `)?\$?\.?(?P<path>.*)`$", re.DOTALL)
_MISSING = re.compile(r"missing required field `(?P<name>[^`]*)`")
_UNKNOWN = re.compile(r"unknown field `(?P<name>[^`]*)`")
_TYPES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}


def in_plain_words(error: msgspec.MsgspecError) -> str:
    """The message, after the path to the part that is wrong unless that is the whole."""
    text = str(error)
    found = _PATH.search(text)
    if found is None:
        return plain_message(text)
    path, message = found["path"], plain_message(text[: found.start()])
    return f"{path}: {message}" if path else message


def plain_message(message: str) -> str:
    """A message without its path. Keys are named as they are written, types in words."""
    if missing := _MISSING.search(message):
        return f"the key {missing['name']!r} is missing"
    if unknown := _UNKNOWN.search(message):
        return f"unknown key {unknown['name']!r}"
    plain = re.sub(r"`([\w |]+)`", lambda found: _types(found[1]), message)
    return plain if plain.startswith("JSON") else plain[:1].lower() + plain[1:]


def _types(names: str) -> str:
    return " or ".join(_TYPES.get(name, f"`{name}`") for name in names.split(" | "))
