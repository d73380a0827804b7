"""What `run` refuses `run --check` refuses, in one answer, each mistake with its position."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_ofu.app.prepare import prepare
from otel_ofu.config import config_read_from_text
from otel_ofu.model.errors import ConfigError

RULES = """\
groups:
  - name: mine
    rules:
      - alert: Low
        each: gpu
        expr: avg(oofu, 2m) < 30%
        labels: {severity: warning}
        causes: [nonsense]
"""


def problems(text: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        prepare(config_read_from_text(text, "c.yaml", environ or {}), environ or {})
    return [str(problem) for problem in caught.value.problems]


def test_mistakes_of_types_of_values_of_files_and_of_the_environment_are_one_answer(
    tmp_path: Path,
) -> None:
    (tmp_path / "r.yaml").write_text(RULES)
    (tmp_path / "skus.yaml").write_text("skus: {mine: {cloc: 1}}\n")
    text = (
        "receivers:\n"
        "  gpu:\n"
        "    intervall: 1s\n"
        "    reference_clock: fast\n"
        f"    skus_file: {tmp_path}/skus.yaml\n"
        "rules:\n"
        f"  paths: [{tmp_path}/r.yaml, {tmp_path}/none.yaml]\n"
        "evidence: {flags: {files: [/nonexistent/flags.yaml]}}\n"
    )
    found = problems(text, {"OTEL_RESOURCE_ATTRIBUTES": "justkey"})
    for expected in (
        "c.yaml:3:5: unknown key 'intervall'; did you mean interval?",
        "c.yaml:4:22: 'fast' is not sku_table",
        f"{tmp_path}/skus.yaml:1:",
        f"{tmp_path}/r.yaml:6:",
        f"{tmp_path}/r.yaml:8:18: unknown cause 'nonsense'",
        "c.yaml:7:",
        "c.yaml:8:28: ",
        "environment: OTEL_RESOURCE_ATTRIBUTES: entry 1",
    ):
        assert any(each.startswith(expected) for each in found), (expected, found)


def test_a_mistake_does_not_become_a_second_one_by_its_default(tmp_path: Path) -> None:
    path = tmp_path / "none.yaml"
    (only,) = problems(f"rules: {{causes_file: {path}}}")
    assert only == f"c.yaml:1:22: no such file: {path}"


def test_a_bad_variable_for_an_exporter_of_the_file_stands_at_the_exporter() -> None:
    text = "exporters:\n  otlp_http: {endpoint: 'http://h:4318'}\n"
    (found,) = problems(text, {"OTEL_EXPORTER_OTLP_TIMEOUT": "ten"})
    assert found.startswith("c.yaml:2:14: ")
    assert "OTEL_EXPORTER_OTLP_TIMEOUT: 'ten'" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("state_dir: /proc/nothing", "c.yaml:1:12: /proc/nothing: /proc cannot be written: "),
        ("exporters: {file: {path: /proc/x/y.jsonl}}", "c.yaml:1:26: /proc/x/y.jsonl: /proc "),
    ],
)
def test_a_folder_that_takes_no_file_is_refused_for_root_as_well(text: str, expected: str) -> None:
    (found,) = problems(text)
    assert found.startswith(expected)


@pytest.mark.parametrize("text", ["", "exporters: {otlp_http: {endpoint: 'http://h:4318'}}\n"])
def test_every_variable_with_a_mistake_is_reported_once(text: str) -> None:
    bad = {"PROTOCOL": "carrier-pigeon", "TIMEOUT": "ten", "HEADERS": "justkey", "INSECURE": "si"}
    environ = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in bad.items()}
    found = problems(text, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://e:4318", **environ})
    assert len(found) == len(bad)
    for name in environ:
        assert sum(f"{name}: " in each for each in found) == 1, (name, found)


@pytest.mark.parametrize(
    ("text", "environ", "host", "service"),
    [
        ("resource: {host.name: node7, service.name: mine}", {}, "node7", "mine"),
        ("", {"OTEL_RESOURCE_ATTRIBUTES": "host.name=n8,service.name=env"}, "n8", "env"),
        ("", {"OTEL_SERVICE_NAME": "other"}, "here", "other"),
        ("", {}, "here", None),
    ],
)
def test_the_names_that_a_user_gives_are_used(
    text: str, environ: dict[str, str], host: str, service: str | None
) -> None:
    prepared = prepare(config_read_from_text(text, "c.yaml", environ), environ)
    assert prepared.host_name("here") == host
    assert prepared.attributes.get("service.name") == service


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "receivers:\n  gpu: {source: demo, demo: {gpus: 2}}\n",
            "c.yaml:2:36: 2 GPUs: scenario 'tour' needs at least 8",
        ),
        ("evidence:\n  flags: {interval: 0s}\n", "c.yaml:2:21: must be from 1s to 1d"),
        (
            "rules:\n  engine: {prometheus: {url: 'ftp://x'}}\n",
            "c.yaml:2:30: 'ftp://x' is not a URL; allowed: http(s)://host[:port][/path]",
        ),
        ("state_dir: /dev/null/state\n", "c.yaml:1:12: /dev/null/state: /dev/null is not a folder"),
        (
            "exporters:\n  prometheus: {listen: '127.0.0.1:0', cert_file: c.pem}\n",
            "c.yaml:2:50: no such file: c.pem",
        ),
        (
            "receivers:\n  otlp: {http: {endpoint: '127.0.0.1:1'}, bearer_token_file: none}\n",
            "c.yaml:2:62: none: No such file or directory",
        ),
    ],
)
def test_what_ended_the_start_alone_is_refused_before_it(text: str, expected: str) -> None:
    assert problems(text) == [expected]
