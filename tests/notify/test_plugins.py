"""A notifier of another package: found by its entry point, and like those built in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_ofu.config import config_from_text
from otel_ofu.model.errors import ConfigError
from otel_ofu.notify import Delivery
from otel_ofu.notify.notifiers import GROUP
from tests.cli.command import run
from tests.notify.rig import finding, rig
from tests.plugin import EXAMPLE, MODULE, example_installed, installed

CONFIG = """\
route:
  receiver: ops
  receivers: [{{name: ops, file_configs: [{{path: "{path}"}}]}}]
"""


@pytest.fixture
def example(tmp_path: Path) -> Iterator[None]:
    with example_installed(tmp_path / "site"):
        yield


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        config_from_text(text, "c.yaml")
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.usefixtures("example")
def test_a_notifier_of_another_package_is_notified_and_has_a_queue(tmp_path: Path) -> None:
    path = tmp_path / "alerts.log"
    written = config_from_text(CONFIG.format(path=path)).route
    block = {"receivers": [{"name": "ops", "file_configs": [{"path": str(path)}]}]}
    with rig(block) as r:
        r.handle(finding("1"))
        r.run(31)
        (sender,) = Delivery(written, r.outbox, r.clock, {}).senders
        assert [(n, len(queue)) for n, queue in r.outbox.queues.items()] == [
            ("route/ops/file-0", 1)
        ]
        sender.step()
    assert path.read_text() == "WARNING 1 since 07:50 UTC (10 min): LowOfu\n"


@pytest.mark.usefixtures("example")
def test_the_command_line_sends_it_a_test(tmp_path: Path) -> None:
    path = tmp_path / "alerts.log"
    (tmp_path / "c.yaml").write_text(CONFIG.format(path=path))
    done = run(tmp_path, "notify", "--test", "ops", "-c", "c.yaml")
    assert (done.returncode, done.stdout) == (0, f"+ {path}  taken\n")
    assert path.read_text().startswith("INFO job test")


@pytest.mark.usefixtures("example")
def test_what_is_wrong_in_its_block_has_a_position() -> None:
    assert problems(CONFIG.format(path="alerts.log")) == [
        "c.yaml:3:49: 'alerts.log' is not an absolute path"
    ]
    _missing, unknown = problems(CONFIG.format(path="/x").replace("path", "pth"))
    assert unknown.startswith("c.yaml:3:43: unknown key 'pth'; did you mean path?")


def test_an_unknown_notifier_is_named_with_all_other_mistakes() -> None:
    text = CONFIG.format(path="/x") + "  max_groups: many\n"
    unknown, other = problems(text)
    assert unknown.startswith("c.yaml:3:27: unknown notifier 'file'; built in: webhook, pagerduty,")
    assert other.startswith("c.yaml:4:15: ")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise RuntimeError('no licence')", "cannot be loaded: RuntimeError: no licence"),
        ("", "cannot be loaded: AttributeError: "),
        ("NOTIFIER = 7", "is not a notifier: it has no name and no settings and no encode"),
        (
            "from otel_ofu.notify.stdout import StdoutNotifier\nNOTIFIER = StdoutNotifier()",
            "is the notifier 'stdout'; both names have to be the same",
        ),
        (
            "class N:\n  name = 'odd'\n  settings = dict\n  encode = connect = 0\nNOTIFIER = N()",
            "is not a notifier: its settings are not a subclass of NotifierConfig",
        ),
    ],
    ids=["raises", "has nothing", "a number", "another name", "odd settings"],
)
def test_a_package_that_cannot_be_used_is_a_mistake_with_its_position(
    code: str, why: str, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    with installed(site, {GROUP: {"odd": "odd_plugin:NOTIFIER"}}):
        (site / "odd_plugin.py").write_text(code)
        (problem,) = problems("route: {receiver: x, receivers: [{name: x, odd_configs: [{}]}]}")
    assert problem.startswith("c.yaml:1:44: ")
    assert why in problem


def test_two_packages_with_one_name_are_a_mistake(tmp_path: Path) -> None:
    points = {GROUP: {"odd": "odd_plugin:NOTIFIER"}}
    with installed(tmp_path / "a", points), installed(tmp_path / "b", points):
        (problem,) = problems("route: {receiver: x, receivers: [{name: x, odd_configs: [{}]}]}")
    assert "several packages have 'odd' (" in problem


@pytest.mark.usefixtures("example")
def test_a_package_is_not_imported_before_a_configuration_names_it() -> None:
    config_from_text("route: {receiver: x, receivers: [{name: x, stdout_configs: [{}]}]}")
    assert MODULE not in sys.modules
    config_from_text(CONFIG.format(path="/x"))
    assert MODULE in sys.modules


def test_the_example_is_short() -> None:
    lines = (EXAMPLE / MODULE / "notifier.py").read_text("utf-8").splitlines()
    assert len(lines) < 60
