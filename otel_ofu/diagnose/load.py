"""A file of causes -> `CauseCatalogue`, all or nothing.

Enters: a path or text, the registry. Leaves: the causes, or a `ConfigError` with every mistake and
its position.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from otel_ofu.catalog.registry import Registry
from otel_ofu.diagnose.cause import FLAGS, Cause, CauseCatalogue, CauseEvidence
from otel_ofu.files.yaml import Steps, YamlFile, convert, convert_usable, parse_yaml, read_yaml
from otel_ofu.model import EntityKind
from otel_ofu.model.errors import ConfigError
from otel_ofu.rules.files.mistakes import RuleMistakes, condition_in
from otel_ofu.rules.language.language import parse_condition
from otel_ofu.rules.language.names import nearest
from otel_ofu.rules.language.parsing import LanguageError
from otel_ofu.rules.language.syntax import Expression

# How much a cause of each grade counts before its evidence: of two that fit alike the graver one
# stands first. Starting values.
PRIORS = {"S4": 1.0, "S3": 0.95, "S2": 0.85, "S1": 0.75, "S0": 0.7}
MAX_CAUSES = 500  # starting value: a round judges all of them
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


Grade = Literal["S4", "S3", "S2", "S1", "S0"]


class _Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of the file: unknown keys are mistakes."""


class EvidenceBlock(_Block, frozen=True, kw_only=True):
    """Evidence: exactly one of `when`, `flags` and `has`."""

    weight: Annotated[float, Meta(description="How much of the score hangs on it, above 0 to 1")]
    when: Annotated[str, Meta(description="A condition in the language of rules")] = ""
    flags: Annotated[list[str], Meta(description="Any of these flags")] = []
    has: Annotated[str, Meta(description="An attribute that the GPU has")] = ""
    speaks: Literal["for", "against"] = "for"
    each: EntityKind | None = None


class CauseBlock(_Block, frozen=True, kw_only=True):
    """One cause; the head of rules/causes.yaml explains the keys."""

    id: str
    title: str
    severity: Grade
    evidence: list[EvidenceBlock]
    each: EntityKind = "gpu"
    spread: Literal["all", "some"] = "all"
    legitimate: bool = False
    explains: list[str] = []
    remark: str = ""
    confounders: str = ""
    next: list[str] = []
    link: str = ""


class CausesFile(_Block, frozen=True, kw_only=True):
    """The file, with causes that are read one by one so that mistakes hide no others."""

    causes: list[dict[str, Any]]
    priors: dict[Grade, float] = {}
    groups: dict[str, list[str]] = {}


def load_causes(path: str | Path, registry: Registry) -> CauseCatalogue:
    """The causes of a file. Raises ConfigError."""
    return _catalogue(read_yaml(path), registry)


def causes_from_text(text: str, registry: Registry, path: str = "causes.yaml") -> CauseCatalogue:
    """The causes of a text. Raises ConfigError."""
    return _catalogue(parse_yaml(text, path), registry)


def _catalogue(file: YamlFile, registry: Registry) -> CauseCatalogue:
    outline, problems = convert_usable(file, CausesFile)
    mistakes = RuleMistakes(file, problems)
    priors: dict[str, float] = {**PRIORS, **dict(outline.priors.items())}
    for severity, prior in outline.priors.items():
        if not 0 < prior <= 1:
            mistakes.add(("priors", severity), "a prior is above 0 and at most 1")
    reader = _Reader(mistakes, registry, priors)
    read = [reader.read(("causes", n)) for n in range(len(outline.causes))]
    causes = tuple(cause for cause in read if cause is not None)
    if len(outline.causes) > MAX_CAUSES:
        mistakes.add(("causes",), f"{len(outline.causes)} causes; at most {MAX_CAUSES} are allowed")
    groups = {name: tuple(members) for name, members in outline.groups.items()}
    if len(causes) == len(outline.causes):
        _check_names(mistakes, causes, groups)
    if mistakes.problems:
        raise ConfigError(sorted(mistakes.problems, key=lambda p: (p.line, p.column)))
    return CauseCatalogue(causes, groups)


def _check_names(
    mistakes: RuleMistakes, causes: Sequence[Cause], groups: Mapping[str, Sequence[str]]
) -> None:
    known = [cause.id for cause in causes]
    for n, cause in enumerate(causes):
        if cause.id in known[:n]:
            mistakes.add(("causes", n, "id"), f"a cause {cause.id!r} is already there")
        _check_known(mistakes, ("causes", n, "explains"), sorted(cause.explains), known)
    for name, members in groups.items():
        if name in known:
            mistakes.add_key(("groups", name), f"{name!r} is a cause already")
        _check_known(mistakes, ("groups", name), members, known)


def _check_known(
    mistakes: RuleMistakes, steps: Steps, names: Sequence[str], known: Sequence[str]
) -> None:
    for name in names:
        if name not in known:
            mistakes.add(steps, f"unknown cause {name!r}{nearest(name, known)}")


class _Reader:
    """Reads causes one by one; mistakes go to `mistakes`."""

    def __init__(
        self, mistakes: RuleMistakes, registry: Registry, priors: Mapping[str, float]
    ) -> None:
        self._mistakes = mistakes
        self._registry = registry
        self._priors = priors

    def read(self, steps: Steps) -> Cause | None:
        try:
            shape = convert(self._mistakes.file, CauseBlock, steps)
        except ConfigError as error:
            self._mistakes.take(error)
            return None
        self._check(shape, steps)
        return Cause(
            id=shape.id,
            title=shape.title,
            severity=shape.severity,
            prior=self._priors[shape.severity],
            evidence=tuple(self._evidence(shape, steps)),
            spread=shape.spread,
            legitimate=shape.legitimate,
            explains=frozenset(shape.explains),
            remark=shape.remark,
            confounders=shape.confounders,
            next_steps=tuple(shape.next),
            link=shape.link,
            position=self._mistakes.position(steps),
        )

    def _check(self, shape: CauseBlock, steps: Steps) -> None:
        if not _NAME.fullmatch(shape.id):
            message = "an id has small letters, digits and _, and begins with a letter"
            self._mistakes.add((*steps, "id"), message)
        if not any(evidence.speaks == "for" for evidence in shape.evidence):
            self._mistakes.add((*steps, "evidence"), "nothing speaks for this cause")
        if not any(evidence.flags or "flag(" in evidence.when for evidence in shape.evidence):
            for n, step in enumerate(shape.next):
                if FLAGS in step:
                    self._mistakes.add((*steps, "next", n), f"{FLAGS}, but no evidence is a flag")
        if shape.link and not shape.link.startswith(("https://", "http://")):
            self._mistakes.add((*steps, "link"), "a link begins with https:// or http://")

    def _evidence(self, shape: CauseBlock, steps: Steps) -> Iterator[CauseEvidence]:
        for n, evidence in enumerate(shape.evidence):
            at = (*steps, "evidence", n)
            if not 0 < evidence.weight <= 1:
                self._mistakes.add((*at, "weight"), "a weight is above 0 and at most 1")
            if sum(map(bool, (evidence.when, evidence.flags, evidence.has))) != 1:
                self._mistakes.add(at, "evidence is exactly one of when, flags and has")
            elif evidence.has:
                yield self._attribute(evidence, at)
            else:
                condition = self._condition(evidence, evidence.each or shape.each, at)
                if condition is not None:
                    yield CauseEvidence(condition, evidence.weight, evidence.speaks)

    def _attribute(self, evidence: EvidenceBlock, steps: Steps) -> CauseEvidence:
        if evidence.has not in self._registry.attributes:
            hint = nearest(evidence.has, self._registry.attributes)
            self._mistakes.add((*steps, "has"), f"unknown attribute {evidence.has!r}{hint}")
        return CauseEvidence(None, evidence.weight, evidence.speaks, evidence.has)

    def _condition(
        self, evidence: EvidenceBlock, each: EntityKind, steps: Steps
    ) -> Expression | None:
        try:
            if evidence.when:
                return condition_in(self._mistakes.file, (*steps, "when"), each, self._registry)
            text = " or ".join(f"flag({name})" for name in evidence.flags)
            return parse_condition(text, "gpu", self._registry)
        except ConfigError as error:
            self._mistakes.take(error)
        except LanguageError as error:
            self._mistakes.add((*steps, "flags"), error.mistakes[0].message)
        return None
