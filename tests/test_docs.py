"""Pages that are made from code are what the code makes; links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    stale = [
        str(path.relative_to(ROOT))
        for path, text in generator().pages().items()
        if path.read_text("utf-8") != text
    ]
    assert stale == [], "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []
