"""What otel-ofu.yaml may hold."""

from __future__ import annotations

import traceback
from pathlib import Path

import msgspec
import pytest

from otel_ofu.config import Config, config_from_text, load_config
from otel_ofu.files.installed import shipped
from otel_ofu.files.yaml import read_yaml
from otel_ofu.jobs import PROVIDERS
from otel_ofu.model.errors import ConfigError

SAMPLE = shipped("config") / "otel-ofu.yaml"


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config_from_text(text, "c.yaml")
    return [str(problem) for problem in caught.value.problems]


def test_no_file_and_an_empty_file_mean_the_defaults() -> None:
    assert config_from_text("") == Config()


def test_the_sample_file_holds_every_key_at_its_default() -> None:
    assert load_config(SAMPLE) == Config()
    written = read_yaml(SAMPLE).tree
    assert _keys(written) == _keys(msgspec.to_builtins(Config(), enc_hook=lambda v: v + 0))


def test_the_gateway_sample_is_good() -> None:
    config = load_config(shipped("config") / "gateway.yaml")
    assert config.receivers.gpu.source == "none"
    assert config.receivers.otlp.http.endpoint == "127.0.0.1:4318"


def test_every_key_of_the_sample_file_has_a_comment() -> None:
    lines = SAMPLE.read_text("utf-8").splitlines()
    bare = [
        line
        for before, line in zip(["", *lines], lines, strict=False)
        if ":" in line
        and not line.lstrip().startswith("#")
        and "#" not in line
        and not before.lstrip().startswith("#")
    ]
    assert bare == []


def _keys(tree: object, path: str = "") -> set[str]:
    if isinstance(tree, dict):
        return {f"{path}.{k}" for k in tree} | {
            inner for k, v in tree.items() for inner in _keys(v, f"{path}.{k}")
        }
    if isinstance(tree, list):
        return {inner for v in tree for inner in _keys(v, f"{path}[]")}
    return set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "receivers: {gpu: {interval: 10}}",
            "c.yaml:1:29: 10 is not a duration such as 10s, 500ms, 5m or 2h",
        ),
        ("receivers: {gpu: {interval: 10ms}}", "c.yaml:1:29: must be from 100ms to 1h"),
        (
            "receivers: {gpu: {source: dcmg}}",
            "c.yaml:1:27: unknown value 'dcmg'; one of: auto, dcgm, demo, none, nvml, scrape",
        ),
        (
            "receivers: {gpu: {reference_clock: fast}}",
            "c.yaml:1:36: 'fast' is not sku_table, device_max or a clock such as 1830MHz",
        ),
        (
            "receivers: {gpu: {reference_clock: 1830Hz}}",
            "c.yaml:1:36: 1830Hz is not a clock of a GPU; allowed: 100MHz to 10GHz",
        ),
        (
            "recievers: {}",
            "c.yaml:1:1: unknown key 'recievers'; did you mean receivers?",
        ),
        (
            "outbox: {max_size: 1MB}",
            "c.yaml:1:20: '1MB' is not a size such as 64KiB, 256MiB or 1GiB",
        ),
        (
            "exporters: {otlp_http: {endpoint: 'host:4318'}}",
            "c.yaml:1:35: must begin with http:// or https://",
        ),
        (
            "exporters: {otlp_grpc: {tls: {ca_file: /nope.pem}}}",
            "c.yaml:1:40: no such file: /nope.pem",
        ),
        (
            "route: {receiver: nobody}",
            "c.yaml:1:19: ",
        ),
        (
            "route: {alertmanager: {servers: ['alertmanager:9093']}}",
            "c.yaml:1:34: ",
        ),
        (
            "route: {routes: [{matchers: [a=b], routes: [{matchers: [c=d]}]}]}",
            "c.yaml:1:36: the key 'routes' is no longer supported; routes have one level: ",
        ),
        (
            "route: {inhibit_rules: []}",
            "c.yaml:1:9: the key 'inhibit_rules' is no longer supported; a node notifies for ",
        ),
        (
            "route:\n  inhibit_rules:\n    - {equal: [a]}",
            "c.yaml:2:3: the key 'inhibit_rules' is no longer supported; a node notifies for ",
        ),
        (
            "exporters: {otlp_grpc: {tls: {cert_file: /dev/null}}}",
            "c.yaml:1:30: cert_file and key_file belong together",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place_and_what_is_allowed(text: str, expected: str) -> None:
    assert problems(text)[0].startswith(expected)


def test_durations_sizes_and_clocks_have_units() -> None:
    config = config_from_text(
        "receivers: {gpu: {interval: 500ms, reference_clock: 1830MHz}}\n"
        "outbox: {max_size: 1GiB, max_age: 2h}\n"
    )
    assert config.receivers.gpu.interval == 0.5
    assert int(config.outbox.max_size) == 2**30
    assert float(config.outbox.max_age) == 7200


def test_problems_are_shown_with_line_and_caret(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("outbox: 7\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert caught.value.with_carets() == (
        f"{path}:1:9: expected a mapping, got a whole number\n  outbox: 7\n          ^"
    )


@pytest.mark.parametrize(
    "text",
    [
        "exporters: {otlp_http: {headers: {authorization: Bearer SECRET}}}",
        "exporters: {otlp_http: {headers: [SECRET]}}",
        "exporters:\n  otlp_http:\n    headers:\n      - Bearer SECRET\n",
        "exporters:\n  otlp_http:\n    headers:\n      authorization: Bearer SECRET\n",
        "exporters: {otlp_http: {headers: [{name: a, value: SECRET, kind: 1}]}}",
        "exporters: {otlp_http: {headers_list: 'a=SECRET', timeout: 10}}",
        "exporters: {otlp_http: {endpoint: 'ftp://u:SECRET@host'}}",
        "route: {alertmanager: {servers: ['http://u:SECRET@host:9093']}}",
        "route: {receivers: [{name: a, apprise_configs: [{url: 'tgram://SECRET/1'}]}]}",
        "route: {receivers: [{name: a, apprise_configs: ['tgram://SECRET/1']}]}",
        "exporters: {otlp_http: {pasword: SECRET}}",
        "exporters: {otlp_http: {authorization:SECRET}}",
        "exporters: {otlp_http: {glpat-SECRET1x2y3z: 1}}",
        "exporters: {otlp_http: {'https://u:SECRET@host/': 1}}",
        "route: {hooks.example.org/T0/SECRET: 1}",
        "a: 1\n'Bearer \"it''s SECRET\"': 2\n",
        "outbox: 5  # SECRET",
        "exporters: {otlp_http: {timeout: 10, token: 'a, timeout: SECRET'}}",
        "exporters: {otlp_http: {timeout: {token: SECRET}}}",
        "password: !SECRET x",
        "password: *SECRET",
        "password: &SECRET",
        "password: !!int SECRET",
        "password: @SECRET",
        "password: `SECRET",
        "password: a: SECRET",
        "token: [SECRET",
        "token: 'SECRET",
        "token: {a, SECRET}",
        "token: |\n  SECRET\n\tSECRET\n",
        "a: 1\na: SECRET\n",
    ],
)
def test_no_secret_of_a_file_is_shown_with_its_mistakes(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_text(text, "c.yaml")
    assert "c.yaml:" in caught.value.with_carets()
    assert "SECRET" not in caught.value.with_carets()
    assert "SECRET" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "key", ["otlp/2", "otlp_http/backup", "groupBy", "h100-sxm5", "k8s.pod", "OTEL_2"]
)
def test_an_unknown_key_that_is_a_name_is_shown_as_it_was_written(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_text(f"exporters: {{{key}: {{}}}}")
    (problem,) = caught.value.problems
    assert problem.message.startswith(f"unknown key {key!r}; ")
    assert f"{{{key}: " in problem.source_line


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("authorization:abc", "authorization***"),
        ("xoxb-123456789012-abc", "***"),
        ("eyJhbGciOiJ", "***"),
        ("AKIAIOSFODNN7EXAMPLE", "***"),
        ("services/T0AB/B1", "services***"),
        ("https://u:p@host", "https***"),
    ],
)
def test_of_a_key_that_could_hold_a_secret_only_a_leading_name_is_shown(
    key: str, shown: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_text(f"{key!r}: 1\n")
    (problem,) = caught.value.problems
    assert problem.message.startswith(f"unknown key '{shown}'; ")
    assert key not in caught.value.with_carets()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("receivers: {gpu: {source: dcmg}}", "receivers: {gpu: {source: dcmg}}"),
        ("jobs: {node: SECRET, interval: 10}", "jobs: {node: ***, interval: 10}"),
        (
            "exporters: {prometheus: {listen: '127.0.0.1:99999', bearer_token_file: /no/token}}",
            "exporters: {prometheus: {listen: '127.0.0.1:99999', bearer_token_file: /no/token}}",
        ),
        (
            "exporters: {prometheus: {listen: 'SECRET', bearer_token_file: eyJhbG.ciOi/J9-x}}",
            "exporters: {prometheus: {listen: ***, bearer_token_file: ***}}",
        ),
        ("resource: {team: 5, a: 'b c'} # d", "resource: {team: 5, a: ***} ***"),
    ],
)
def test_a_line_is_shown_with_its_keys_and_the_values_that_cannot_be_secret(
    text: str, line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_text(text)
    assert {problem.source_line for problem in caught.value.problems} == {line}


def test_the_caret_stands_under_its_part_of_a_line_with_something_hidden() -> None:
    text = "exporters: {otlp_http: {endpoint: 'http://host', compression: lzw}}"
    with pytest.raises(ConfigError) as caught:
        config_from_text(text)
    (problem,) = caught.value.problems
    assert problem.column == text.index("lzw") + 1
    assert problem.with_caret().splitlines()[1:] == [
        "  exporters: {otlp_http: {endpoint: ***, compression: lzw}}",
        " " * 54 + "^",
    ]


def test_all_providers_of_jobs_are_asked_unless_told_otherwise() -> None:
    assert tuple(Config().jobs.providers) == PROVIDERS


def test_a_duplicate_key_hides_no_other_mistake_of_the_file() -> None:
    text = (
        "resource: {a: b}\nresource: {c: d}\njobs: {interval: 10}\nreceivers: {gpu: {source: x}}\n"
    )
    with pytest.raises(ConfigError) as caught:
        config_from_text(text)
    assert [(problem.line, problem.column) for problem in caught.value.problems] == [
        (2, 1),
        (3, 18),
        (4, 27),
    ]
