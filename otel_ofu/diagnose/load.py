"""A file of causes -> `CauseBook`, all or nothing.

Enters: a path or text, the registry. Leaves: the causes, or a `ConfigError` with every mistake and
its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from otel_ofu.catalog.registry import Registry
from otel_ofu.diagnose.cause import FLAGS, Cause, CauseBook, Clue
from otel_ofu.diagnose.shape import CauseShape, CausesOutline, ClueShape
from otel_ofu.files.yaml import Steps, YamlFile, convert, parse_yaml, read_yaml
from otel_ofu.model import EntityKind
from otel_ofu.model.errors import ConfigError
from otel_ofu.rules.files.mistakes import Mistakes
from otel_ofu.rules.files.positions import condition_in
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.names import nearest
from otel_ofu.rules.language.parsing import LanguageError
from otel_ofu.rules.language.syntax import Expression

PRIORS = {"S4": 1.0, "S3": 0.95, "S2": 0.85, "S1": 0.75, "S0": 0.7}
MAX_CAUSES = 500
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def load_causes(path: str | Path, registry: Registry) -> CauseBook:
    """The causes of a file. Raises ConfigError."""
    return _book(read_yaml(path), registry)


def causes_from_text(text: str, registry: Registry, path: str = "causes.yaml") -> CauseBook:
    """The causes of a text. Raises ConfigError."""
    return _book(parse_yaml(text, path), registry)


def _book(file: YamlFile, registry: Registry) -> CauseBook:
    outline = convert(file, CausesOutline)
    notes = Mistakes(file)
    priors: dict[str, float] = {**PRIORS, **dict(outline.priors.items())}
    for severity, prior in outline.priors.items():
        if not 0 < prior <= 1:
            notes.add(("priors", severity), "a prior is above 0 and at most 1")
    reader = _Reader(notes, registry, priors)
    read = [reader.read(("causes", n)) for n in range(len(outline.causes))]
    causes = tuple(cause for cause in read if cause is not None)
    if len(outline.causes) > MAX_CAUSES:
        notes.add(("causes",), f"{len(outline.causes)} causes; at most {MAX_CAUSES} are allowed")
    groups = {name: tuple(members) for name, members in outline.groups.items()}
    if len(causes) == len(outline.causes):
        _check_names(notes, causes, groups)
    if notes.problems:
        raise ConfigError(sorted(notes.problems, key=lambda p: (p.line, p.column)))
    return CauseBook(causes, groups)


def _check_names(
    notes: Mistakes, causes: Sequence[Cause], groups: Mapping[str, Sequence[str]]
) -> None:
    known = [cause.id for cause in causes]
    for n, cause in enumerate(causes):
        if cause.id in known[:n]:
            notes.add(("causes", n, "id"), f"a cause {cause.id!r} is already there")
        _check_known(notes, ("causes", n, "explains"), sorted(cause.explains), known)
    for name, members in groups.items():
        if name in known:
            notes.add_key(("groups", name), f"{name!r} is a cause already")
        _check_known(notes, ("groups", name), members, known)


def _check_known(notes: Mistakes, steps: Steps, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            notes.add(steps, f"unknown cause {name!r}{nearest(name, known)}")


class _Reader:
    """Reads causes one by one; mistakes go to `notes`."""

    def __init__(self, notes: Mistakes, registry: Registry, priors: Mapping[str, float]) -> None:
        self._notes = notes
        self._registry = registry
        self._priors = priors

    def read(self, steps: Steps) -> Cause | None:
        try:
            shape = convert(self._notes.file, CauseShape, steps)
        except ConfigError as error:
            self._notes.take(error)
            return None
        self._check(shape, steps)
        return Cause(
            id=shape.id,
            title=shape.title,
            severity=shape.severity,
            prior=self._priors[shape.severity],
            clues=tuple(self._clues(shape, steps)),
            spread=shape.spread,
            legitimate=shape.legitimate,
            explains=frozenset(shape.explains),
            remark=shape.remark,
            confounders=shape.confounders,
            next_steps=tuple(shape.next),
            link=shape.link,
            place=self._notes.position(steps),
        )

    def _check(self, shape: CauseShape, steps: Steps) -> None:
        if not _NAME.fullmatch(shape.id):
            message = "an id has small letters, digits and _, and begins with a letter"
            self._notes.add((*steps, "id"), message)
        if not any(clue.speaks == "for" for clue in shape.evidence):
            self._notes.add((*steps, "evidence"), "nothing speaks for this cause")
        if not any(clue.flags or "flag(" in clue.when for clue in shape.evidence):
            for n, step in enumerate(shape.next):
                if FLAGS in step:
                    self._notes.add((*steps, "next", n), f"{FLAGS}, but no evidence is a flag")
        if shape.link and not shape.link.startswith(("https://", "http://")):
            self._notes.add((*steps, "link"), "a link begins with https:// or http://")

    def _clues(self, shape: CauseShape, steps: Steps) -> Iterator[Clue]:
        for n, clue in enumerate(shape.evidence):
            place = (*steps, "evidence", n)
            if not 0 < clue.weight <= 1:
                self._notes.add((*place, "weight"), "a weight is above 0 and at most 1")
            if sum(map(bool, (clue.when, clue.flags, clue.has))) != 1:
                self._notes.add(place, "evidence is exactly one of when, flags and has")
            elif clue.has:
                yield self._attribute(clue, place)
            else:
                condition = self._condition(clue, clue.each or shape.each, place)
                if condition is not None:
                    yield Clue(condition, clue.weight, clue.speaks)

    def _attribute(self, clue: ClueShape, steps: Steps) -> Clue:
        if clue.has not in self._registry.attributes:
            hint = nearest(clue.has, self._registry.attributes)
            self._notes.add((*steps, "has"), f"unknown attribute {clue.has!r}{hint}")
        return Clue(None, clue.weight, clue.speaks, clue.has)

    def _condition(self, clue: ClueShape, each: EntityKind, steps: Steps) -> Expression | None:
        try:
            if clue.when:
                return condition_in(self._notes.file, (*steps, "when"), each, self._registry)
            text = " or ".join(f"flag({name})" for name in clue.flags)
            return parse_condition(text, "gpu", self._registry)
        except ConfigError as error:
            self._notes.take(error)
        except LanguageError as error:
            self._notes.add((*steps, "flags"), error.mistakes[0].message)
        return None
