"""Rule files -> one `RuleSet`, all or nothing.

Enters: paths of files and folders, the registry. Leaves: the rules, or a `ConfigError` with every
mistake of every file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from otel_ofu.catalog.registry import Registry
from otel_ofu.files.yaml import Steps, YamlFile, convert_good, parse_yaml, problem_at, read_yaml
from otel_ofu.model.errors import ConfigError, Problem
from otel_ofu.rules.files.compile import RuleContext, RuleReader
from otel_ofu.rules.files.mistakes import RuleMistakes
from otel_ofu.rules.files.rule import FilePosition, Rule, RuleGroup, RuleSet, SilenceCondition
from otel_ofu.rules.files.shape import FileOutline

MIN_INTERVAL_S, MAX_INTERVAL_S = 1.0, 86_400.0
# Starting values: 18 rules are shipped; a page of mistakes is enough to read.
MAX_RULES = 2_000
MAX_PROBLEMS = 100
SUFFIXES = (".yaml", ".yml")
NO_RULES = ("causes.yaml", "flags.yaml")
"""Files of a rule folder that hold something else."""

BUILT_IN = """\
groups:
  - name: built-in
    interval: 30s
    rules:
      - alert: EntitySilent
        each: gpu
        silent_for: 2m
        labels: {severity: warning}
        annotations:
          summary: "{{ $labels.hw_id }}: no data for {{ $value | duration }}"
        tests:
          - {name: fires when the samples end, series: {ofu: 0.4x10 _x10}, fires_at: 6m30s}
          - {name: quiet as long as they come, series: {ofu: 0.4x20}}
"""


def load_rules(
    paths: Iterable[str | Path],
    registry: Registry,
    causes: Collection[str] | None = None,
    flags: Collection[str] | None = None,
) -> RuleSet:
    """The rules of files, and of the YAML files in folders. Raises ConfigError.

    `causes`, `flags`: the names that `causes:` and `flag(…)` may have; None for any. When no rule
    judges silent GPUs, a built-in rule does.
    """
    files: list[YamlFile] = []
    problems: list[Problem] = []
    for path in rule_paths(paths):
        try:
            files.append(read_yaml(path))
        except ConfigError as error:
            problems += error.problems
    return rules_of(files, RuleContext(registry, causes, flags), problems)


def rules_from_text(text: str, registry: Registry, path: str = "rules.yaml") -> RuleSet:
    """The rules of a text, without the built-in one. Raises ConfigError."""
    return _rule_set([parse_yaml(text, path)], RuleContext(registry), [])


def rules_of(
    files: Sequence[YamlFile], context: RuleContext, problems: Iterable[Problem] = ()
) -> RuleSet:
    """The rules of parsed files; `problems` are those of files that could not be parsed."""
    rules = _rule_set(files, context, list(problems))
    if any(isinstance(rule.condition, SilenceCondition) and rule.each == "gpu" for rule in rules):
        return rules
    built_in = rules_from_text(BUILT_IN, context.registry, "built-in")
    names = {group.name for group in rules.groups} | {rule.name for rule in rules}
    taken = names & {"built-in", "EntitySilent"}
    return rules if taken else RuleSet((*rules.groups, *built_in.groups))


def rule_paths(paths: Iterable[str | Path]) -> list[Path]:
    """Every file that is meant, once: a folder means the rule files in it, by name."""
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        inside = (
            (p for p in sorted(path.iterdir()) if p.suffix in SUFFIXES and p.name not in NO_RULES)
            if path.is_dir()
            else [path]
        )
        found |= dict.fromkeys(inside)
    return list(found)


def _rule_set(files: Sequence[YamlFile], context: RuleContext, problems: list[Problem]) -> RuleSet:
    groups: list[RuleGroup] = []
    texts = {file.path: file.text for file in files}
    for file in files:
        mistakes = RuleMistakes(file)
        groups += _groups(mistakes, context)
        problems += mistakes.problems
    rules = list(chain.from_iterable(group.rules for group in groups))
    problems += _duplicates("group", ((group.name, group.position) for group in groups), texts)
    problems += _duplicates("rule", ((rule.name, rule.position) for rule in rules), texts)
    if len(rules) > MAX_RULES:
        position = rules[MAX_RULES].position
        message = f"{len(rules):,} rules; at most {MAX_RULES:,} are allowed"
        problems.append(Problem(position.path, position.line, position.column, message))
    if problems:
        raise ConfigError(sorted(problems, key=lambda p: (p.path, p.line, p.column)))
    return RuleSet(tuple(groups))


def _groups(mistakes: RuleMistakes, context: RuleContext) -> list[RuleGroup]:
    outline = convert_good(mistakes.file, FileOutline)
    mistakes.problems += outline.problems
    if outline.value is None or outline.bad:
        _check_rules_alone(mistakes, context)
        return []
    groups: list[RuleGroup] = []
    for g, group in enumerate(outline.value.groups):
        steps: Steps = ("groups", g)
        interval_s = mistakes.duration((*steps, "interval"), group.interval, 30.0)
        if not MIN_INTERVAL_S <= interval_s <= MAX_INTERVAL_S or interval_s % 1:
            message = "an interval is a whole number of seconds, from 1s to 1d"
            mistakes.add((*steps, "interval"), message)
        reader = RuleReader(mistakes, context, interval_s)
        rules = tuple(_rules(reader, range(len(group.rules)), (*steps, "rules")))
        groups.append(RuleGroup(group.name, interval_s, rules, mistakes.position((*steps, "name"))))
    return groups


def _check_rules_alone(mistakes: RuleMistakes, context: RuleContext) -> None:
    """The mistakes within rules whose groups, or other keys of the file, have mistakes as well."""
    reader = RuleReader(mistakes, context, MIN_INTERVAL_S)
    for g, group in enumerate(_list(mistakes.file.tree, "groups")):
        rules = _list(group, "rules")
        indices = [i for i, rule in enumerate(rules) if isinstance(rule, dict)]
        deque(_rules(reader, indices, ("groups", g, "rules")), maxlen=0)


def _list(tree: object, key: str) -> list[object]:
    value = tree.get(key) if isinstance(tree, dict) else None
    return value if isinstance(value, list) else []


def _rules(reader: RuleReader, indices: Iterable[int], steps: Steps) -> Iterator[Rule]:
    problems = reader.mistakes.problems
    for index in indices:
        if len(problems) >= MAX_PROBLEMS:
            message = "too many mistakes: the rest of the file was not checked"
            reader.mistakes.add((*steps, index), message)
            return
        rule = reader.read((*steps, index))
        if rule is not None:
            yield rule


def _duplicates(
    what: str, named: Iterable[tuple[str, FilePosition]], texts: Mapping[str, str]
) -> list[Problem]:
    first: dict[str, FilePosition] = {}
    problems: list[Problem] = []
    for name, position in named:
        if name in first:
            there = f"{first[name].path}:{first[name].line}"
            message = f"a {what} {name!r} is already there, at {there}"
            at = (position.path, texts[position.path], position.line, position.column)
            problems.append(problem_at(*at, message))
        first.setdefault(name, position)
    return problems


_Mark = tuple[int, int, int]


class FileWatch:
    """Files, and the rule files of folders; new and removed files count as changes."""

    def __init__(self, paths: Iterable[str | Path]) -> None:
        self._paths = tuple(paths)
        self._marks = self._scan()

    def changed(self) -> bool:
        """True once after every change."""
        before, self._marks = self._marks, self._scan()
        return self._marks != before

    def _scan(self) -> Mapping[Path, _Mark | None]:
        try:
            return {path: _mark(path) for path in rule_paths(self._paths)}
        except OSError:  # a folder that cannot be listed now: the load reports why
            return {}


def _mark(path: Path) -> _Mark | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
