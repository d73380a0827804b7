"""`otel-ofu rules …` as its users type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_ofu.files.installed import shipped
from tests.cli.command import run
from tests.store.fleets import Bench, gpu, seen

GOOD = """\
groups:
  - name: mine
    interval: 30s
    rules:
      - alert: Low
        each: gpu
        expr: avg(ofu, 2m) < 30%
        for: 1m
        labels: {severity: warning}
        annotations: {summary: "{{ $labels.hw_id }}: {{ $value | percent }}"}
        tests:
          - {name: fires, series: {ofu: 0.1x30}, fires_at: 3m}
          - {name: quiet, series: {ofu: 0.5x30}}
"""


CAUSES = """\
causes:
  - id: mine
    title: My own
    severity: S2
    evidence:
      - {when: "avg(ofu, 2m) < 20%", weight: 0.5}
    next: [Look]
"""


FLAGS = """\
flags:
  - id: OWN
    severity: S2
    look: [{where: [env], names: [OWN], equals: [info]}]
    mechanism: It waits.
    legitimate: Debugging.
    sources: [https://example.org]
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "r.yaml"
    path.write_text(GOOD)
    return path


def test_the_shipped_rules_are_good_and_their_tests_can_be_run(tmp_path: Path) -> None:
    assert run(tmp_path, "rules", "check").stdout.endswith(" rules: ok\n")
    tested = run(tmp_path, "rules", "test", str(shipped("rules") / "data-quality.yaml"))
    assert tested.returncode == 0, tested.stdout
    assert tested.stdout.endswith(" passed, 0 failed\n")
    assert "LowOfuWhileBusy" in run(tmp_path, "rules", "list").stdout


def test_mistakes_are_told_with_line_column_and_caret(tmp_path: Path, rules: Path) -> None:
    rules.write_text(GOOD.replace("avg(ofu, 2m)", "avg(oofu, 2)"))
    done = run(tmp_path, "rules", "check", "r.yaml")
    assert done.returncode == 2
    assert done.stderr.startswith("r.yaml:7:")
    assert "^" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_rule_may_list_the_causes_that_the_agent_would_know(tmp_path: Path, rules: Path) -> None:
    listed = GOOD.replace("        tests:\n", "        causes: [mine]\n        tests:\n")
    rules.write_text(listed)
    done = run(tmp_path, "rules", "check", "r.yaml")
    assert done.returncode == 2
    assert "r.yaml:11:18: unknown cause 'mine'" in done.stderr
    (tmp_path / "causes.yaml").write_text(CAUSES)
    assert run(tmp_path, "rules", "check", "r.yaml", "--causes", "causes.yaml").returncode == 0
    assert run(tmp_path, "rules", "check", ".").stdout.endswith("1 rule: ok\n")
    (tmp_path / "causes.yaml").write_text(CAUSES + "sevrity: {}\n")
    rules.write_text(listed.replace("avg(ofu, 2m)", "avg(oofu, 2m)"))
    both = run(tmp_path, "rules", "check", ".").stderr
    assert "causes.yaml:" in both
    assert "r.yaml:7:" in both


def test_a_flag_has_to_be_one_that_is_looked_for(tmp_path: Path, rules: Path) -> None:
    rules.write_text(GOOD.replace("avg(ofu, 2m) < 30%", "flag(NCCL_DEBUGG) or flag(OWN)"))
    done = run(tmp_path, "rules", "check", "r.yaml")
    assert done.returncode == 2
    assert "r.yaml:7:15: unknown flag 'NCCL_DEBUGG'; did you mean NCCL_DEBUG" in done.stderr
    assert "r.yaml:7:36: unknown flag 'OWN'" in done.stderr
    rules.write_text(GOOD.replace("avg(ofu, 2m) < 30%", "flag(NCCL_DEBUG) or flag(OWN)"))
    (tmp_path / "flags.yaml").write_text(FLAGS)
    assert run(tmp_path, "rules", "check", "r.yaml", "--flags", "flags.yaml").returncode == 0
    assert run(tmp_path, "rules", "check", ".").stdout.endswith("1 rule: ok\n")


def test_what_a_hostile_file_holds_does_nothing_to_the_terminal(
    tmp_path: Path, rules: Path
) -> None:
    turned = "\u202emuminim"
    bad = GOOD.replace("alert: Low", f'"\\e]0;x\\a": 1\n        alert: "{turned}\\e[2J"')
    rules.write_text(bad, "utf-8")
    refused = run(tmp_path, "rules", "check", "r.yaml").stderr
    assert r"\x1b]0;x\x07" in refused
    assert r"\u202emuminim" in refused
    rules.write_text(GOOD.replace("name: quiet", f'name: "{turned}\\e[2J"').replace("0.5", "0.1"))
    failed = run(tmp_path, "rules", "test", "r.yaml").stdout
    assert r"Low: \u202emuminim\x1b[2J: expected" in failed
    for text in (refused, failed):
        assert all(c.isprintable() or c == "\n" for c in text)


def test_a_test_that_fails_says_when_it_fired(tmp_path: Path, rules: Path) -> None:
    rules.write_text(GOOD.replace("fires_at: 3m", "fires_at: 5m"))
    done = run(tmp_path, "rules", "test", "r.yaml")
    assert done.returncode == 1
    assert "Low: fires: expected to fire at 5m, fired at " in done.stdout
    assert "1 passed, 1 failed" in done.stdout


def test_a_file_without_tests_is_not_a_success(tmp_path: Path, rules: Path) -> None:
    rules.write_text(GOOD[: GOOD.index("        tests:")])
    done = run(tmp_path, "rules", "test", "r.yaml")
    assert (done.returncode, done.stderr) == (1, "no tests in these files\n")


def test_the_schema_is_json(tmp_path: Path) -> None:
    shape = json.loads(run(tmp_path, "rules", "schema").stdout)
    assert "groups" in shape["$defs"]["FileShape"]["properties"]


@pytest.mark.parametrize("target", ["prometheus", "mimir", "prometheusrule", "vmrule"])
def test_rules_are_exported(tmp_path: Path, rules: Path, target: str) -> None:
    done = run(tmp_path, "rules", "export", "--to", target, "r.yaml")
    assert done.returncode == 0
    assert "alert: Low" in done.stdout


@pytest.mark.parametrize("target", ["prometheus", "mimir", "prometheusrule", "vmrule"])
def test_figures_of_jobs_are_exported_as_recording_rules(tmp_path: Path, target: str) -> None:
    done = run(tmp_path, "rules", "export", "--recording", "--to", target)
    assert done.returncode == 0
    assert "record: ofu_job:ofu:ratio5m" in done.stdout
    assert "alert:" not in done.stdout


def test_a_recording_is_tried_and_two_versions_are_compared(tmp_path: Path, rules: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "receivers: {gpu: {source: demo, interval: 200ms, demo: {scenario: idle}}}\n"
    )
    run(tmp_path, "record", "-o", "r.jsonl", "--for", "2s", "-c", "c.yaml")
    quick = GOOD.replace("2m", "2s").replace("for: 1m", "for: 0s").replace("30s", "1s")
    (tmp_path / "quick.yaml").write_text(quick.replace("< 30%", "< 90%"))
    (tmp_path / "never.yaml").write_text(quick.replace("< 30%", "< 1%"))
    once = run(tmp_path, "rules", "backtest", "r.jsonl", "--rules", "quick.yaml")
    assert once.returncode == 0, once.stderr
    assert "8 findings of 1 rule\n" in once.stdout
    assert once.stdout.count("  Low ") == 8
    both = run(
        tmp_path,
        *("rules", "backtest", "r.jsonl", "--rules", "never.yaml", "--diff", "quick.yaml"),
    )
    assert "8 differences" in both.stdout
    explained = run(
        tmp_path,
        *("rules", "explain", "LowOfuWhileBusy", "--recording", "r.jsonl", "-c", "c.yaml"),
    )
    assert explained.returncode == 0, explained.stderr
    assert "avg(ofu, " in explained.stdout
    assert "% of the window with the least data" in explained.stdout


def test_rules_are_held_against_a_recording_and_a_state_directory(
    tmp_path: Path, rules: Path
) -> None:
    demo = "receivers: {gpu: {source: demo, interval: 200ms, demo: {scenario: idle}}}\n"
    (tmp_path / "c.yaml").write_text(demo)
    run(tmp_path, "record", "-o", "r.jsonl", "--for", "1s", "-c", "c.yaml")
    rules.write_text(GOOD.replace("avg(ofu, 2m) < 30%", "ofu < 90%"))
    told = run(tmp_path, "rules", "check", "r.yaml", "--history", "r.jsonl", "-c", "c.yaml")
    assert "warning: r.yaml:5:9: Low: true for 100% of 8 GPUs now\n" in told.stdout
    assert told.stdout.endswith("1 rule: ok\n")
    bench = Bench(state_dir=tmp_path / "state" / "store")
    bench.write(seen(gpu(), 10, {"power": 100.0}))
    bench.store.close()
    told = run(tmp_path, "rules", "check", "r.yaml", "--history", "state")
    assert "Low: never known: ofu has no samples here\n" in told.stdout
    (tmp_path / "empty").mkdir()
    refused = run(tmp_path, "rules", "check", "r.yaml", "--history", "empty")
    assert (refused.returncode, "no history in empty" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["rules"], 2, "VERB"),
        (["rules", "check", "nothing.yaml"], 2, "nothing.yaml"),
        (["rules", "check", "."], 2, ".: no rules in it"),
        (["rules", "check", ""], 2, "'' is not a file"),
        (["run", "-c", ""], 2, "not a regular file"),
        (["rules", "explain", "Nothing"], 2, "no rule 'Nothing'; there are: "),
        (["rules", "explain", "LowOfuWhileBusy"], 1, "is the agent running here?"),
        (["rules", "backtest", "nothing.jsonl"], 2, "nothing.jsonl"),
        (["rules", "export", "--to", "grafana"], 2, "invalid choice: 'grafana'"),
        (["rules", "export", "--recording", "r.yaml"], 1, "--recording takes no files"),
        (["mfu", "nothing.json"], 2, "nothing.json"),
        (["explain", "abc"], 1, "no agent has kept anything in "),
        (["route", "--explain", "severity"], 2, "'severity' is not a label"),
        (["notify", "--test", "nobody"], 2, "unknown receiver 'nobody'"),
    ],
)
def test_wrong_words_are_told_clearly(
    tmp_path: Path, words: list[str], status: int, told: str
) -> None:
    done = run(tmp_path, *words)
    assert done.returncode == status
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_mfu_of_a_model_from_its_config(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = run(
        tmp_path,
        *("mfu", "config.json", "--seq-len", "8192", "--json"),
        *("--tokens-per-s-per-gpu", "8000", "--gpu", "NVIDIA H100 80GB HBM3"),
    )
    assert done.returncode == 0, done.stderr
    assert "8030261248" in done.stdout.replace(".0", "")
