"""The names in the code are the words of docs/glossary.md."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")
MODULES = {
    path.relative_to(ROOT): ast.parse(path.read_text("utf-8"))
    for path in sorted((ROOT / "otel_ofu").rglob("*.py"))
}
PHRASES = (
    "there is none",
    "there are none",
    "that is none",
    "is none",
    "no use",
    "says",
    "tells",
    "hears",
    "was told",
    "looked at",
)


def words_of(name: str) -> list[str]:
    """`HTTPServer2` -> `http`, `server`; `last_seen` -> `last`, `seen`."""
    found = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return [word.lower() for word in found]


def rows(part: str) -> Iterator[list[str]]:
    for line in part.splitlines():
        if line.startswith("|") and not line.startswith(("|---", "| word", "| not")):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def parts() -> tuple[str, str, str]:
    meanings, _, rest = GLOSSARY.partition("## Instead of")
    instead, _, others = rest.partition("## Other nouns of the code")
    return meanings, instead, others


def known_nouns() -> set[str]:
    meanings, _, others = parts()
    cells = [row[0] for row in rows(meanings)]
    last = (words_of(term)[-1] for cell in cells for term in cell.split(","))
    return {*last, *(words_of(term)[-1] for term in others.split(",") if words_of(term))}


def replaced() -> dict[str, str]:
    """The words that are not used -> what is used for them."""
    _, instead, _ = parts()
    return {word.strip().lower(): row[1] for row in rows(instead) for word in row[0].split(",")}


def classes() -> Iterator[tuple[Path, str]]:
    for path, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield path, node.name


def names() -> Iterator[tuple[Path, str]]:
    """Of modules, classes and functions, private ones included."""
    for path, tree in MODULES.items():
        yield path, path.stem
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node.name


def messages() -> Iterator[tuple[Path, int, str]]:
    """All texts but docstrings, which stand alone as a statement."""
    for path, tree in MODULES.items():
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in docs
            ):
                yield path, node.lineno, node.value


def test_one_class_name_means_one_thing() -> None:
    found = defaultdict(list)
    for path, name in classes():
        found[name].append(str(path))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_the_nouns_of_public_classes_stand_in_the_glossary() -> None:
    known = known_nouns()
    known |= {f"{noun}s" for noun in known} | {noun.removesuffix("s") for noun in known}
    missing = {f"{path}: {name}" for path, name in classes() if words_of(name)[-1] not in known}
    assert missing == set(), "use a noun of docs/glossary.md, or give the new one a row there"


def test_every_other_noun_is_used() -> None:
    used = {words_of(name)[-1] for _, name in classes()}
    used |= {noun.removesuffix("s") for noun in used}
    others = {words_of(term)[-1] for term in parts()[2].split(",") if words_of(term)}
    assert others - used == set(), "no class has this name any more"


def test_words_that_the_glossary_replaces_name_nothing() -> None:
    instead = replaced()
    found = {
        f"{path}: {name}: write {instead[word]}"
        for path, name in names()
        for word in words_of(name)
        if word in instead
    }
    assert found == set()


@pytest.mark.parametrize("phrase", PHRASES)
def test_messages_are_plain_english(phrase: str) -> None:
    assert [
        f"{p}:{line}: {text}" for p, line, text in messages() if re.search(rf"\b{phrase}\b", text)
    ] == []


def test_the_test_sees_words_inside_of_names() -> None:
    assert words_of("AlertStoreHTTP") == ["alert", "store", "http"]
    assert words_of("_last_seen") == ["last", "seen"]
    assert replaced()["parcel"] == "entry, storage, batch, priority queues"
    assert {"finding", "gap", "time"} <= known_nouns()
