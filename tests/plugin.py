"""Packages with parts for otel-ofu, installed for a test: a folder on the path of imports.

tests/golden/plugin is the example of docs/plugins.md; its entry points are those of its
pyproject.toml.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent / "golden" / "plugin"
MODULE = "otel_ofu_example"

EntryPoints = Mapping[str, Mapping[str, str]]
"""Of each group: `module:object` by name."""


@contextmanager
def installed(folder: Path, points: EntryPoints, code: Path | None = None) -> Iterator[None]:
    """A package with these entry points, beside whatever is installed; `code` has its modules."""
    name = f"plugin_{folder.name}"
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in p.items()) for g, p in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        if code is not None:
            patch.syspath_prepend(str(code))
        before = set(sys.modules)
        yield
        for module in set(sys.modules) - before:
            if module.partition(".")[0] == MODULE or _is_under(module, folder):
                del sys.modules[module]


def _is_under(module: str, folder: Path) -> bool:
    file = getattr(sys.modules[module], "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)


@contextmanager
def example_installed(folder: Path) -> Iterator[None]:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    with installed(folder, project["entry-points"], EXAMPLE):
        yield
