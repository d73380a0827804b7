"""Which files to follow: paths, globs, and `{job}` for the part of a path that names the job.

Enters: `/logs/{job}/*.out`. Leaves: the files that are there now, each with its job.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from itertools import islice

MAX_FILES = 256  # starting value: of one template
MAX_FOUND = 10_000  # starting value: names that are compared
_MAGIC = re.compile(r"[*?\[{]")


class PathTemplate:
    """A path to follow. `{job}` stands once for one part of the path, or a piece of a part."""

    def __init__(self, text: str) -> None:
        if not text.startswith("/") or "\0" in text or text.count("{job}") > 1:
            raise ValueError(
                f"{text!r}: allowed: an absolute path, with * ? [] ** and {{job}} at most once"
            )
        self.text = text
        self._before, self._mark, self._after = text.partition("{job}")

    @property
    def is_plain(self) -> bool:
        """Whether it is one path, followed even when nothing is there yet."""
        return _MAGIC.search(self.text) is None

    def found(self) -> Iterator[tuple[str, str]]:
        """Path and job of each file there now, by name. Job is empty without `{job}`."""
        if self.is_plain:
            yield self.text, ""
            return
        pattern = f"{self._before}{self._star}{self._after}"
        # pathlib has no absolute patterns; islice bounds what a careless ** walks through.
        paths = islice(glob.iglob(pattern, recursive=True), MAX_FOUND)  # noqa: PTH207
        for path in sorted(paths):
            yield path, self._job(path)

    @property
    def _star(self) -> str:
        return "*" if self._mark else ""

    def _job(self, path: str) -> str:
        if not self._mark:
            return ""
        shape = f"{_wild(self._before)}(?P<job>[^/]*?){_wild(self._after)}"
        named = re.fullmatch(shape, path)
        return named["job"] if named else ""


def _wild(text: str) -> str:
    """A glob as a regular expression within one part of a path; ** crosses parts."""
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]]*\])", text)
    return "".join(_wild_part(part) for part in parts)


def _wild_part(part: str) -> str:
    if part.startswith("**"):
        return r"(?:.*/)?" if part.endswith("/") else ".*"
    if part.startswith("[") and part.endswith("]"):
        return "[^" + part[2:] if part.startswith("[!") else part
    return {"*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
