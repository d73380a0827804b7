"""docs/routing.md: the block of every key is the default, and the examples are good ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from otel_ofu.files.settings import CheckContext, hook, mistakes
from otel_ofu.notify import RouteSettings
from otel_ofu.notify.message import parse_message_template
from tests.notify.rig import NOW_S

PAGE = (Path(__file__).parents[2] / "docs" / "routing.md").read_text("utf-8")
YAML = re.findall(r"```yaml\n(.+?)```", PAGE, re.DOTALL)
BLOCKS = [yaml.safe_load(block)["route"] for block in YAML]


def read(block: dict[str, Any]) -> RouteSettings:
    return msgspec.convert(block, RouteSettings, dec_hook=hook)


def test_every_key_is_there_at_its_default() -> None:
    (default,) = [block for block in BLOCKS if "max_groups" in block]
    assert read(default) == msgspec.convert({}, RouteSettings)
    assert set(default) == set(RouteSettings.__struct_encode_fields__)


def test_the_examples_have_no_mistake_but_for_files_that_are_not_here() -> None:
    found = [why for block in BLOCKS for _, why in mistakes(read(block), CheckContext(NOW_S))]
    assert [why for why in found if "no such file" not in why.lower()] == []


def test_the_template_of_the_page_is_one() -> None:
    (template,) = re.findall(r"```\n(\*\*.+?)```", PAGE, re.DOTALL)
    assert parse_message_template(template)
