"""`otel-ofu rules backtest` and `rules explain`: rules on what was observed before.

Enters: rule files, recordings, the history of an agent. Leaves: text.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shutil import copytree

from otel_ofu.app.prepare import configured_rules, deriver
from otel_ofu.app.shared_gpus import derive_owned
from otel_ofu.app.state import could_be_state_dir
from otel_ofu.catalog.registry import load_registry
from otel_ofu.cli import options
from otel_ofu.config import Config
from otel_ofu.files.installed import shipped
from otel_ofu.model import Observation
from otel_ofu.model.clock import SystemClock
from otel_ofu.model.errors import OtelOfuError
from otel_ofu.report.text import counted
from otel_ofu.rules.backtest import BacktestResult, Episode, backtest, differences
from otel_ofu.rules.files.load import load_rules
from otel_ofu.rules.files.rule import Rule, RuleSet
from otel_ofu.rules.numpy.engine import NumpyEngine
from otel_ofu.rules.numpy.samples import retention_for
from otel_ofu.rules.verdicts import CLEAR, HOLDS, Explanation, explain
from otel_ofu.sources.recording import RecordingReader
from otel_ofu.store import Retention, Store

# Starting value: a screen of text.
MOST_EXPLAINED = 8
BUILT_IN = "built-in"
FILES = "rule files or folders; without any, the rules that come with otel-ofu"


def add_backtest(kinds: options.Verbs) -> None:
    text = "what the rules would have found in recordings"
    parser = kinds.add_parser("backtest", help=text, description=text)
    parser.add_argument("recordings", nargs="+", metavar="RECORDING")
    parser.add_argument("--rules", nargs="+", default=[], metavar="FILE", help=FILES)
    parser.add_argument("--diff", nargs="+", metavar="FILE", help="other rules, to compare with")
    options.add_config(parser)
    parser.set_defaults(verb=run_backtest)


def add_explain(kinds: options.Verbs) -> None:
    text = "each part of a rule with its present value"
    parser = kinds.add_parser(
        "explain",
        help=text,
        description=f"{text}, from the history of the agent on this machine or from a recording.",
    )
    parser.add_argument("rule", metavar="RULE")
    parser.add_argument(
        "--gpu",
        "--entity",
        dest="entity",
        metavar="ID",
        help="GPU (UUID), job or node; without it the first few",
    )
    parser.add_argument("--recording", metavar="FILE", help="instead of the agent's history")
    options.add_config(parser)
    parser.set_defaults(verb=run_explain)


def rules_in(
    files: Sequence[str],
    causes: Collection[str] | None = None,
    flags: Collection[str] | None = None,
) -> RuleSet:
    """The rules of the files, which may name `causes` and `flags`; None for any.

    Raises ConfigError also without a rule.
    """
    if "" in files:
        raise options.misused("'' is not a file")
    rules = load_rules(files or [shipped("rules")], load_registry(), causes, flags)
    if not written(rules):
        raise options.misused("no rules in it", ", ".join(files))
    return rules


def written(rules: RuleSet) -> list[str]:
    """The names of the rules that stand in files."""
    return [rule.name for rule in rules if rule.position.path != BUILT_IN]


def run_backtest(arguments: argparse.Namespace) -> int:
    """What would have fired, when, for how long; with --diff, what differs."""
    config = options.config_of(arguments)
    sets = [rules_in(arguments.rules)] + ([rules_in(arguments.diff)] if arguments.diff else [])
    progress = options.ProgressWriter()
    ticks, shown = recorded_ticks(config, arguments.recordings), partial(progress.at, "backtest")
    pasts = backtest(ticks, sets, load_registry(), progress=shown)
    progress.end()
    past = pasts[0]
    print(
        f"{past.ticks} rounds over {past.gpu_days:.2f} GPU-days, "
        f"{counted(len(past.episodes), 'finding')} of {counted(len(written(sets[0])), 'rule')}"
    )
    lines = _differences(pasts) if len(pasts) > 1 else (_episode(e, past) for e in past.episodes)
    for line in lines:
        print(line)
    return 0


def recorded_ticks(
    config: Config, recordings: Sequence[str]
) -> Iterator[tuple[float, Sequence[Observation]]]:
    derived = deriver(config.receivers.gpu, "")
    for path in recordings:
        for tick in RecordingReader(path).ticks():
            by_uuid = {reading.device.uuid: reading for reading in tick}
            now_s = max(reading.window.end_s for reading in tick)
            yield (
                now_s,
                [
                    seen
                    for r in tick
                    for seen in derive_owned(derived, r, by_uuid.get(r.device.parent))
                ],
            )


def _episode(episode: Episode, past: BacktestResult) -> str:
    end = _time(episode.ended_s) if episode.ended_s else "still open at the end"
    lasted = f"{episode.lasted_s(past.end_s) / 60:.0f} min"
    suffix = episode.entity or "summary"
    shadow = " (shadow)" if episode.opened.shadow else ""
    rule = f"{episode.opened.rule:24} {suffix}"
    return f"{_time(episode.opened_s)}  {lasted:>8}  {rule}  until {end}{shadow}"


def _differences(pasts: Sequence[BacktestResult]) -> Iterator[str]:
    found = differences(pasts[0], pasts[1])
    yield f"{len(pasts[1].episodes)} findings with the other rules, {len(found)} differences"
    for difference in found:
        if difference.before:
            yield f"- {_episode(difference.before, pasts[0])}"
        if difference.after:
            yield f"+ {_episode(difference.after, pasts[1])}"


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def run_explain(arguments: argparse.Namespace) -> int:
    """The parts of `expr` and `clear` with their values."""
    config = options.config_of(arguments)
    rule = _named(configured_rules(config), arguments.rule)
    if arguments.recording:
        store = _recorded(config, arguments.recording)
        return _explain(store, rule, arguments.entity)
    folder, _ = could_be_state_dir(config.state_dir, os.environ)
    if not (folder / "store").is_dir():
        raise OtelOfuError(
            f"no history in {folder}: is the agent running here? --recording FILE needs none"
        )
    with tempfile.TemporaryDirectory() as copy:
        copytree(folder / "store", Path(copy) / "store")  # the agent keeps the original
        store = Store(
            load_registry(),
            _retention(config),
            step_s=step_of(config),
            state_dir=Path(copy) / "store",
            clock=SystemClock(),
        )
        return _explain(store, rule, arguments.entity)


def _named(rules: RuleSet, name: str) -> Rule:
    for rule in rules:
        if rule.name == name:
            return rule
    names = ", ".join(rule.name for rule in rules)
    raise options.misused(f"no rule {name!r}; there are: {names}", "rules explain")


def _recorded(config: Config, path: str) -> Store:
    store = Store(load_registry(), _retention(config), step_s=step_of(config))
    for _, observations in recorded_ticks(config, [path]):
        store.write(observations)
    return store


def _retention(config: Config) -> Retention:
    return retention_for(configured_rules(config).expressions(), step_of(config))


def step_of(config: Config) -> float:
    return float(config.receivers.gpu.interval)


def _explain(store: Store, rule: Rule, wanted: str | None) -> int:
    slots = store.slots(rule.each)
    ids = [entity.id for entity in slots.by_column() if entity is not None]
    ids = [id_ for id_ in ids if wanted is None or wanted in (id_, id_.partition("/")[0])]
    if not ids:
        raise OtelOfuError(f"no {rule.each} {wanted or ''} in the history".replace("  ", " "))
    at_s = max(float(s) for s in slots.last_seen_s[: len(slots)])
    print(f"{rule.name} at {_time(at_s)} UTC")
    for id_ in ids[:MOST_EXPLAINED]:
        print(f"\n{rule.each} {id_}")
        for explanation in explain(NumpyEngine(store), rule, id_, at_s):
            for line in _lines(explanation):
                print(line)
    return 0


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f"  {explanation.title}:"
    for part in explanation.parts:
        yield f"  {'  ' * (part.depth + 1)}{part.text:60} {_shown(part.verdict, part.value)}"
    known = [e.coverage for e in explanation.evidence if not math.isnan(e.coverage)]
    if known:
        yield f"    data for {100 * min(known):.0f}% of the window with the least data"


def _shown(verdict: int | None, value: float) -> str:
    if verdict is not None:
        return {HOLDS: "holds", CLEAR: "clear"}.get(verdict, "unknown")
    return "no value" if math.isnan(value) else f"{value:.6g}"
